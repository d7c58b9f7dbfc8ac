#include "transport/peer.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "transport/board.h"
#include "transport/call_order.h"
#include "transport/ordered_reduction.h"

namespace ucudnn::transport {
namespace {

// A channel's objects that must be destroyed in the channel's context.
struct OwnedByPeer {
  explicit OwnedByPeer(const ChannelSetup& setup) : order(*setup.driver), reduction(setup) {}
  CallOrder order;
  OrderedReduction reduction;
};

class PeerChannel final : public Channel {
 public:
  PeerChannel(const ChannelSetup& setup, std::shared_ptr<Board> board)
      : setup_(setup),
        driver_(*setup.driver),
        board_(std::move(board)),
        owned_(std::make_unique<OwnedByPeer>(setup)) {}

  ~PeerChannel() override {
    const cuda::ContextScope scope(driver_, setup_.context);
    const cuda::RelaxedCaptureScope relaxed(driver_);
    const auto deadline = std::chrono::steady_clock::now() + std::min(setup_.timeout, kLeavingTime);
    // This rank's copies must be done before it leaves. After that, the other ranks may reuse the
    // memory from which this rank copies.
    while (!owned_->order.Done() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    board_->Leave(setup_.rank, deadline);
    owned_.reset();
  }

  Status Enter() {
    const cuda::ContextScope scope(driver_, setup_.context);
    UCUDNN_RETURN_IF_ERROR(owned_->order.Create());
    return board_->Enter(setup_.rank, setup_.context);
  }

  void ReachOtherDevices() const;

  Status Exchange(std::span<const Message> sends, std::span<const Message> receives,
                  CUstream stream) override {
    const cuda::ContextScope scope(driver_, setup_.context);
    if (cuda::IsCapturing(driver_, stream)) return AbortUnless(CanBeCaptured());
    const Status status = TryExchange(sends, receives, stream);
    if (!status.ok()) GiveUp(sends, stream);
    return status;
  }

  Status AllReduce(CUdeviceptr data, size_t count, Element element, CUstream stream) override {
    const cuda::ContextScope scope(driver_, setup_.context);
    if (cuda::IsCapturing(driver_, stream)) {
      driver_.cuMemsetD8Async(data, 0xff, count * SizeOf(element), stream);
      return AbortUnless(CanBeCaptured());
    }
    UCUDNN_RETURN_IF_ERROR(AbortUnless(owned_->order.Begin(stream)));
    const Status status = owned_->reduction.Run(*this, data, count, element, stream);
    return AbortUnless(status.ok() ? owned_->order.End(stream) : status);
  }

  Status Reserve(size_t, size_t reduction_bytes) override {
    Status reserved = Status::Ok();
    {
      const cuda::ContextScope scope(driver_, setup_.context);
      const cuda::RelaxedCaptureScope relaxed(driver_);
      reserved = owned_->reduction.Reserve(reduction_bytes);
    }
    return GatherVerdict(*setup_.gatherer, setup_.size, reserved, "making room for an exchange");
  }

  size_t device_bytes() const override { return owned_->reduction.device_bytes(); }
  Status Check() override { return board_->State(); }
  // Captured calls are refused: Exchange waits on the host for the other ranks' hosts, and a launch
  // of a graph cannot do so.
  Status CanBeCaptured() const override {
    return Status::Error(
        "ranks whose exchanges go between the devices of one process cannot be captured in a CUDA "
        "graph; ranks that are processes can");
  }
  DeviceProgress Progress() override {
    const cuda::ContextScope scope(driver_, setup_.context);
    return owned_->order.Progress();
  }
  void Abort() override { board_->Abort(setup_.rank); }

 private:
  Status AbortUnless(Status status) {
    if (!status.ok()) Abort();
    return status;
  }

  Status TryExchange(std::span<const Message> sends, std::span<const Message> receives,
                     CUstream stream);
  void GiveUp(std::span<const Message> sends, CUstream stream);
  Status LayOut(std::span<const Message> sends, CUstream stream);
  Status Take(const Message& message, Board::Deadline deadline, CUstream stream);
  Status Copy(const Message& message, const Board::Parcel& parcel, CUstream stream);

  const ChannelSetup setup_;
  const cuda::Driver& driver_;
  const std::shared_ptr<Board> board_;
  std::unique_ptr<OwnedByPeer> owned_;
};

// Enables direct copies between devices where the machine allows them. Otherwise the driver copies
// through the host.
void PeerChannel::ReachOtherDevices() const {
  const auto device_of = [this](CUcontext context, CUdevice* device) {
    const cuda::ContextScope scope(driver_, context);
    return driver_.cuCtxGetDevice(device) == CUDA_SUCCESS;
  };
  CUdevice own = 0;
  if (!device_of(setup_.context, &own)) return;
  for (int peer = 0; peer < setup_.size; ++peer) {
    const CUcontext context = board_->ContextOf(peer);
    CUdevice device = 0;
    int can_reach = 0;
    if (!device_of(context, &device) || device == own) continue;
    if (driver_.cuDeviceCanAccessPeer(&can_reach, own, device) != CUDA_SUCCESS || !can_reach) {
      continue;
    }
    const cuda::ContextScope scope(driver_, setup_.context);
    // If the program has already enabled access, this call fails without any harm.
    driver_.cuCtxEnablePeerAccess(context, 0);
  }
}

Status PeerChannel::TryExchange(std::span<const Message> sends, std::span<const Message> receives,
                                CUstream stream) {
  UCUDNN_RETURN_IF_ERROR(CheckMessages(sends, setup_.rank, setup_.size));
  UCUDNN_RETURN_IF_ERROR(CheckMessages(receives, setup_.rank, setup_.size));
  UCUDNN_RETURN_IF_ERROR(board_->State());
  UCUDNN_RETURN_IF_ERROR(owned_->order.Begin(stream));
  const Board::Deadline deadline = std::chrono::steady_clock::now() + setup_.timeout;
  // Every rank first puts all its messages on the board, without waiting. Then it takes the
  // messages for it, and last it waits until its own messages are taken. So ranks never wait for
  // each other in a circle: in the end all of them wait for ranks that have not come to this
  // exchange yet.
  UCUDNN_RETURN_IF_ERROR(LayOut(sends, stream));
  for (const Message& message : receives) {
    UCUDNN_RETURN_IF_ERROR(Take(message, deadline, stream));
  }
  for (const Message& message : sends) {
    UCUDNN_RETURN_IF_ERROR(board_->AwaitTaken(setup_.rank, message.peer, deadline));
    const Status held_back = board_->TakenOf(message.peer, setup_.rank).HoldBack(stream);
    board_->SaySettled(setup_.rank, message.peer);
    UCUDNN_RETURN_IF_ERROR(held_back);
  }
  return owned_->order.End(stream);
}

// Aborts, and makes `stream` wait for the copies that other ranks have begun, because later work on
// `stream` may rewrite the sent memory.
void PeerChannel::GiveUp(std::span<const Message> sends, CUstream stream) {
  Abort();
  const Board::Deadline deadline =
      std::chrono::steady_clock::now() + std::min(setup_.timeout, kLeavingTime);
  for (const Message& message : sends) {
    if (message.peer < 0 || message.peer >= setup_.size || message.peer == setup_.rank) continue;
    if (!board_->TakenAfterAbort(setup_.rank, message.peer, deadline)) continue;
    (void)board_->TakenOf(message.peer, setup_.rank).HoldBack(stream);
    board_->SaySettled(setup_.rank, message.peer);
  }
  (void)owned_->order.End(stream);
}

Status PeerChannel::LayOut(std::span<const Message> sends, CUstream stream) {
  if (sends.empty()) return Status::Ok();
  // The event may be recorded again, because the messages of the previous exchange were taken, so
  // no rank still waits for the event's previous record.
  cuda::Event& ready = board_->ReadyOf(setup_.rank);
  UCUDNN_RETURN_IF_ERROR(ready.Record(stream));
  for (const Message& message : sends) {
    board_->LayOut(setup_.rank, message.peer,
                   {message.data, message.bytes, setup_.context, ready.get()});
  }
  return Status::Ok();
}

Status PeerChannel::Take(const Message& message, Board::Deadline deadline, CUstream stream) {
  UCUDNN_ASSIGN_OR_RETURN(const Board::Parcel parcel,
                          board_->Await(message.peer, setup_.rank, deadline));
  const Status copied = Copy(message, parcel, stream);
  board_->SayTaken(message.peer, setup_.rank, copied.ok());
  return copied;
}

Status PeerChannel::Copy(const Message& message, const Board::Parcel& parcel, CUstream stream) {
  if (parcel.bytes != message.bytes) {
    return Status::Error("rank " + std::to_string(message.peer) + " sends " +
                         std::to_string(parcel.bytes) + " bytes where rank " +
                         std::to_string(setup_.rank) + " expects " + std::to_string(message.bytes));
  }
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      driver_, driver_.cuStreamWaitEvent(stream, parcel.ready, 0), "waiting for a peer's message"));
  const CUresult copied =
      parcel.context == setup_.context
          ? driver_.cuMemcpyDtoDAsync(message.data, parcel.data, message.bytes, stream)
          : driver_.cuMemcpyPeerAsync(message.data, setup_.context, parcel.data, parcel.context,
                                      message.bytes, stream);
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(driver_, copied, "copying a peer's message"));
  return board_->TakenOf(setup_.rank, message.peer).Record(stream);
}

}  // namespace

Result<std::unique_ptr<Channel>> OpenPeerChannel(const ChannelSetup& setup) {
  const char* const doing = "opening the exchange within the process";
  UCUDNN_ASSIGN_OR_RETURN(
      const std::vector<std::string> keys,
      GatherAll(*setup.gatherer, setup.size, setup.rank == 0 ? Board::NewKey() : "", doing));
  auto channel =
      std::make_unique<PeerChannel>(setup, Board::Open(keys[0], setup.size, *setup.driver));
  UCUDNN_RETURN_IF_ERROR(GatherVerdict(*setup.gatherer, setup.size, channel->Enter(), doing));
  channel->ReachOtherDevices();
  return std::unique_ptr<Channel>(std::move(channel));
}

}  // namespace ucudnn::transport
