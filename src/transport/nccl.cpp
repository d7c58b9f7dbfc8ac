#include "transport/nccl.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "base/byte_size.h"
#include "transport/call_order.h"
#include "transport/nccl_communicators.h"
#include "transport/ordered_reduction.h"

namespace ucudnn::transport {
namespace {

// A channel's objects that must be destroyed in the channel's context.
struct OwnedByNccl {
  explicit OwnedByNccl(const cuda::Driver& driver)
      : order(driver), plain(driver), scratch(plain, driver) {}
  CallOrder order;
  // This pool is never created in the driver, so buffers are allocated with cuMemAlloc, which is
  // not ordered on any stream.
  const cuda::MemoryPool plain;
  cuda::DeviceBuffer scratch;  // for uncaptured reductions, which run one at a time
  // Buffers for captured reductions. Graphs contain their addresses and may run at the same time as
  // uncaptured reductions, so Reserve must not touch them. New captured reductions use the last
  // buffer.
  std::deque<cuda::DeviceBuffer> captured_scratch;
};

class NcclChannel final : public Channel {
 public:
  NcclChannel(const ChannelSetup& setup, std::shared_ptr<nccl::Communicators> communicators)
      : setup_(setup),
        driver_(*setup.driver),
        communicators_(std::move(communicators)),
        owned_(std::make_unique<OwnedByNccl>(driver_)) {}

  ~NcclChannel() override {
    const cuda::ContextScope scope(driver_, setup_.context);
    const cuda::RelaxedCaptureScope relaxed(driver_);
    const auto deadline = std::chrono::steady_clock::now() + std::min(setup_.timeout, kLeavingTime);
    while (!owned_->order.Done() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!owned_->order.Done()) Abort();
    nccl::Communicators::Destroy(communicators_);
    owned_.reset();
  }

  Status Create() {
    const cuda::ContextScope scope(driver_, setup_.context);
    return owned_->order.Create();
  }

  Status Exchange(std::span<const Message> sends, std::span<const Message> receives,
                  CUstream stream) override {
    const cuda::ContextScope scope(driver_, setup_.context);
    Status status = owned_->order.Begin(stream);
    if (status.ok()) status = CheckMessages(sends, setup_.rank, setup_.size);
    if (status.ok()) status = CheckMessages(receives, setup_.rank, setup_.size);
    if (status.ok() && !(sends.empty() && receives.empty())) {
      status = communicators_->Exchange(sends, receives, stream);
    }
    return End(std::move(status), stream);
  }

  Status AllReduce(CUdeviceptr data, size_t count, Element element, CUstream stream) override {
    const cuda::ContextScope scope(driver_, setup_.context);
    Status status = owned_->order.Begin(stream);
    if (status.ok()) status = ReducePieces(data, count, element, stream);
    // After a failure `data` may have partial sums. They are replaced by NaN, so that nobody takes
    // them for the sums.
    if (!status.ok()) driver_.cuMemsetD8Async(data, 0xff, count * SizeOf(element), stream);
    return End(std::move(status), stream);
  }

  Status Reserve(size_t, size_t reduction_bytes) override {
    Status reserved = Status::Ok();
    {
      const cuda::ContextScope scope(driver_, setup_.context);
      const cuda::RelaxedCaptureScope relaxed(driver_);
      reserved = owned_->scratch.Grow(ReductionScratchBytes(reduction_bytes));
    }
    return GatherVerdict(*setup_.gatherer, setup_.size, reserved, "making room for an exchange");
  }

  size_t device_bytes() const override {
    size_t bytes = owned_->scratch.size();
    for (const cuda::DeviceBuffer& captured : owned_->captured_scratch) bytes += captured.size();
    return bytes;
  }
  Status Check() override { return communicators_->Check(); }
  DeviceProgress Progress() override {
    const cuda::ContextScope scope(driver_, setup_.context);
    return owned_->order.Progress();
  }
  void Abort() override { nccl::Communicators::Abort(communicators_); }

 private:
  // Returns the scratch memory for a reduction of `bytes` bytes in the call that has begun.
  Result<const cuda::DeviceBuffer*> Scratch(size_t bytes) {
    if (!owned_->order.is_captured()) return &owned_->scratch;
    std::deque<cuda::DeviceBuffer>& captured = owned_->captured_scratch;
    const size_t reserved = owned_->scratch.size();
    const size_t held = captured.empty() ? 0 : captured.back().size();
    if (held < std::min(bytes, reserved)) {
      const cuda::RelaxedCaptureScope relaxed(driver_);
      const Status made = captured.emplace_back(owned_->plain, driver_).Reserve(reserved);
      if (!made.ok()) {
        captured.pop_back();
        return made;
      }
    }
    return captured.empty() ? &owned_->scratch : &captured.back();
  }

  Status ReducePieces(CUdeviceptr data, size_t count, Element element, CUstream stream) {
    UCUDNN_ASSIGN_OR_RETURN(const cuda::DeviceBuffer* const scratch,
                            Scratch(count * SizeOf(element)));
    const size_t piece = scratch->size() / SizeOf(element);
    if (piece == 0 && count > 0) {
      return Status::Error("a reduction of " + FormatByteSize(count * SizeOf(element)) +
                           " for which no room was reserved");
    }
    for (size_t done = 0; done < count; done += piece) {
      UCUDNN_RETURN_IF_ERROR(ReducePiece(data + done * SizeOf(element), scratch->address(),
                                         std::min(piece, count - done), element, stream));
    }
    return Status::Ok();
  }

  // Reduces from a copy, with `data` set to NaN. Without the copy, an abort that ends the reduction
  // would leave this rank's own numbers in `data`, and they could be taken for the sum.
  Status ReducePiece(CUdeviceptr data, CUdeviceptr scratch, size_t count, Element element,
                     CUstream stream) {
    const size_t bytes = count * SizeOf(element);
    UCUDNN_RETURN_IF_ERROR(
        cuda::DriverStatus(driver_, driver_.cuMemcpyDtoDAsync(scratch, data, bytes, stream),
                           "copying what is to be reduced"));
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(driver_,
                                              driver_.cuMemsetD8Async(data, 0xff, bytes, stream),
                                              "filling a reduction's buffer with NaN"));
    return communicators_->AllReduce(scratch, data, count, element, stream);
  }

  Status End(Status status, CUstream stream) {
    const Status ended = owned_->order.End(stream);
    if (status.ok()) status = ended;
    if (!status.ok()) Abort();
    return status;
  }

  const ChannelSetup setup_;
  const cuda::Driver& driver_;
  const std::shared_ptr<nccl::Communicators> communicators_;
  std::unique_ptr<OwnedByNccl> owned_;
};

// Returns the text that a rank sends to the other ranks: NCCL's version and, from rank 0, the ids
// from which communicators are made.
std::string OpeningText(const nccl::Functions& functions, const nccl::UniqueIds* ids) {
  std::string text = nccl::VersionText(functions.version) + "\n";
  if (ids != nullptr) text.append(reinterpret_cast<const char*>(ids), sizeof *ids);
  return text;
}

Result<nccl::UniqueIds> ReadOpening(const std::vector<std::string>& texts) {
  nccl::UniqueIds ids;
  const size_t version = texts[0].find('\n') + 1;
  if (version == 0 || texts[0].size() - version != sizeof ids) {
    return Status::Error("rank 0 tells no identity of its NCCL communicators");
  }
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0].substr(0, version)) continue;
    return Status::Error("rank 0 has NCCL " + texts[0].substr(0, version - 1) + " and rank " +
                         std::to_string(rank) + " has " +
                         texts[rank].substr(0, texts[rank].find('\n')));
  }
  std::memcpy(&ids, texts[0].data() + version, sizeof ids);
  return ids;
}

// Makes the ids. Only rank 0 calls this; the other ranks receive the ids from rank 0.
Result<nccl::UniqueIds> MakeIds(const nccl::Functions& functions) {
  nccl::UniqueIds ids = {};
  for (nccl::UniqueId* const id : {&ids.exchanges, &ids.reductions}) {
    UCUDNN_RETURN_IF_ERROR(
        functions.StatusOf(functions.GetUniqueId(id), "making a communicator's identity", nullptr));
  }
  return ids;
}

}  // namespace

Result<std::unique_ptr<Channel>> OpenNcclChannel(const ChannelSetup& setup,
                                                 const std::string& cudnn_file) {
  const char* const doing = "opening the exchange over NCCL";
  const auto verdict = [&](const Status& own) {
    return GatherVerdict(*setup.gatherer, setup.size, own, doing);
  };
  const Result<nccl::Functions> functions = nccl::Load(cudnn_file);
  Result<nccl::UniqueIds> ids = nccl::UniqueIds();
  if (setup.rank == 0 && functions.ok()) ids = MakeIds(*functions);
  UCUDNN_RETURN_IF_ERROR(verdict(functions.ok() ? ids.status() : functions.status()));
  const std::string mine = OpeningText(*functions, setup.rank == 0 ? &*ids : nullptr);
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                          GatherAll(*setup.gatherer, setup.size, mine, doing));
  UCUDNN_ASSIGN_OR_RETURN(const nccl::UniqueIds agreed, ReadOpening(texts));
  const Result<std::shared_ptr<nccl::Communicators>> made =
      nccl::Communicators::Make(setup, *functions, agreed);
  if (const Status connected = verdict(made.status()); !connected.ok()) {
    if (made.ok()) nccl::Communicators::Abort(*made);
    return connected;
  }
  auto channel = std::make_unique<NcclChannel>(setup, *made);
  UCUDNN_RETURN_IF_ERROR(verdict(channel->Create()));
  return std::unique_ptr<Channel>(std::move(channel));
}

}  // namespace ucudnn::transport
