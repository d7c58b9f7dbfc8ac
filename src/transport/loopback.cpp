#include "transport/loopback.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "transport/loopback_state.h"

namespace ucudnn::transport {
namespace {

class LoopbackChannel final : public Channel {
 public:
  LoopbackChannel(const ChannelSetup& setup, SharedSegment control)
      : setup_(setup),
        driver_(*setup.driver),
        state_(std::make_shared<LoopbackState>(setup, std::move(control))) {}

  ~LoopbackChannel() override {
    const cuda::ContextScope scope(driver_, setup_.context);
    const cuda::RelaxedCaptureScope relaxed(driver_);
    if (!state_->AwaitIdle(std::min(setup_.timeout, kLeavingTime)).ok()) Abort();
    state_->Close();
    // Waits until no other thread uses the state, so that its shared memory is freed while the
    // context certainly exists. That can take more than kLeavingTime, because after an abort a
    // thread lets graphs pass for kLeavingTime. At the deadline, the memory is left to the thread
    // that still uses it.
    const auto deadline = std::chrono::steady_clock::now() + 2 * kLeavingTime;
    while (state_.use_count() > 1 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    state_.reset();
  }

  Status Create() {
    const cuda::ContextScope scope(driver_, setup_.context);
    return state_->Create();
  }

  Status Exchange(std::span<const Message> sends, std::span<const Message> receives,
                  CUstream stream) override {
    const cuda::ContextScope scope(driver_, setup_.context);
    UCUDNN_RETURN_IF_ERROR(CheckBeforeExchange(sends, receives));
    Status status = state_->Begin(stream);
    if (status.ok()) status = Enqueue(sends, receives, stream);
    return End(std::move(status), stream);
  }

  Status AllReduce(CUdeviceptr data, size_t count, Element element, CUstream stream) override {
    const cuda::ContextScope scope(driver_, setup_.context);
    Status status = state_->Begin(stream);
    if (status.ok()) status = Reduce(data, count, element, stream);
    return End(std::move(status), stream);
  }

  Status Reserve(size_t message_bytes, size_t reduction_bytes) override;

  size_t device_bytes() const override { return state_->device_bytes(); }
  Status Check() override { return state_->State(); }
  DeviceProgress Progress() override {
    const cuda::ContextScope scope(driver_, setup_.context);
    return state_->order.Progress();
  }
  void Abort() override { state_->Abort(); }

 private:
  Status CheckBeforeExchange(std::span<const Message> sends, std::span<const Message> receives);
  Status Enqueue(std::span<const Message> sends, std::span<const Message> receives,
                 CUstream stream);
  Status Send(const Message& message, CUstream stream);
  Status Receive(const Message& message, CUstream stream);
  Status Reduce(CUdeviceptr data, size_t count, Element element, CUstream stream);
  Status End(Status status, CUstream stream);

  Status Await(const std::atomic<uint32_t>& word, uint32_t value, CUstreamWaitValue_flags flags,
               CUstream stream) const {
    return cuda::DriverStatus(
        driver_, driver_.cuStreamWaitValue32(stream, state_->DeviceOf(word), value, flags),
        "making a stream wait for another rank");
  }

  Result<Slots> PrepareRoom(size_t message_bytes, size_t reduction_bytes);
  Status OpenOthers(Slots& slots);

  const ChannelSetup setup_;
  const cuda::Driver& driver_;
  std::shared_ptr<LoopbackState> state_;
};

Status LoopbackChannel::CheckBeforeExchange(std::span<const Message> sends,
                                            std::span<const Message> receives) {
  for (const std::span<const Message> messages : {sends, receives}) {
    Status status = CheckMessages(messages, setup_.rank, setup_.size);
    for (const Message& message : messages) {
      if (!status.ok() || message.bytes <= state_->slots.slot_bytes) continue;
      status = Status::Error("a message of " + std::to_string(message.bytes) +
                             " bytes, with room for " + std::to_string(state_->slots.slot_bytes));
    }
    if (status.ok()) continue;
    Abort();
    return status;
  }
  Status state = state_->State();
  if (!state.ok()) Abort();
  return state;
}

// Ends a call, even one that failed, because the next call must follow the work that is already on
// the stream. If another rank aborted during the call, fails and aborts, too, because the other
// rank may have let only work of earlier calls pass.
Status LoopbackChannel::End(Status status, CUstream stream) {
  const Status ended = state_->End(stream);
  if (status.ok()) status = ended;
  const Status state = state_->State();
  if (status.ok()) status = state;
  if (!status.ok()) Abort();
  return status;
}

// Sends are enqueued first. They wait only until earlier messages are taken, so streams cannot wait
// for each other in a circle.
Status LoopbackChannel::Enqueue(std::span<const Message> sends, std::span<const Message> receives,
                                CUstream stream) {
  for (const Message& message : sends) UCUDNN_RETURN_IF_ERROR(Send(message, stream));
  for (const Message& message : receives) UCUDNN_RETURN_IF_ERROR(Receive(message, stream));
  return Status::Ok();
}

Status LoopbackChannel::Send(const Message& message, CUstream stream) {
  const uint32_t slot = state_->NextSlotTo(message.peer);
  const SlotWords& words = state_->lanes.Between(setup_.rank, message.peer).slots[slot];
  UCUDNN_RETURN_IF_ERROR(Await(words.busy, 0, CU_STREAM_WAIT_VALUE_EQ, stream));
  UCUDNN_RETURN_IF_ERROR(state_->Write(words.busy, 1, stream));
  char* const place = state_->SlotOf(setup_.rank, message.peer, slot);
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      driver_, driver_.cuMemcpyDtoHAsync(place, message.data, message.bytes, stream),
      "copying a message to shared memory"));
  return state_->Write(words.bytes, SizeWord(message.bytes), stream);
}

Status LoopbackChannel::Receive(const Message& message, CUstream stream) {
  const uint32_t slot = state_->NextSlotFrom(message.peer);
  const SlotWords& words = state_->lanes.Between(message.peer, setup_.rank).slots[slot];
  UCUDNN_RETURN_IF_ERROR(Await(words.bytes, UINT32_MAX, CU_STREAM_WAIT_VALUE_AND, stream));
  UCUDNN_RETURN_IF_ERROR(state_->EnqueueTaking(message, slot, stream));
  UCUDNN_RETURN_IF_ERROR(state_->Write(words.busy, 0, stream));
  return cuda::DriverStatus(
      driver_, driver_.cuMemcpyHtoDAsync(message.data, state_->Landing(), message.bytes, stream),
      "copying a message from shared memory");
}

Status LoopbackChannel::Reduce(CUdeviceptr data, size_t count, Element element, CUstream stream) {
  const size_t bytes = count * SizeOf(element);
  const Result<OrderedReduction*> reduction = state_->ReductionOf(bytes);
  if (reduction.ok()) return (*reduction)->Run(*this, data, count, element, stream);
  driver_.cuMemsetD8Async(data, 0xff, bytes, stream);
  return reduction.status();
}

// Does the part of Reserve that needs no other rank. Returns this rank's new slots; slot_bytes is 0
// if the present slots are large enough.
Result<Slots> LoopbackChannel::PrepareRoom(size_t message_bytes, size_t reduction_bytes) {
  constexpr size_t kSlotAlignment = 4096;
  const size_t bytes =
      std::max(message_bytes, OrderedReduction::LargestMessage(reduction_bytes, setup_.size));
  if (bytes > SIZE_MAX / (kSlots * setup_.size + kLandings) - kSlotAlignment) {
    return Status::Error("there is no room for messages of " + std::to_string(bytes) + " bytes");
  }
  UCUDNN_RETURN_IF_ERROR(state_->AwaitDone(setup_.timeout));
  {
    const cuda::RelaxedCaptureScope relaxed(driver_);
    UCUDNN_RETURN_IF_ERROR(state_->reduction.Reserve(reduction_bytes));
  }
  if (bytes <= state_->slots.slot_bytes) return Slots(driver_);
  return state_->MakeSlots((bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment);
}

// Opens the slots of the other ranks. Either all ranks have made slots of one size, or none has
// made any, because all calls so far had the same arguments on all ranks.
Status LoopbackChannel::OpenOthers(Slots& slots) {
  const char* const doing = "sharing memory with the other ranks";
  Result<std::string> key = slots.slot_bytes == 0 ? std::string() : slots.own.Key();
  UCUDNN_RETURN_IF_ERROR(GatherVerdict(*setup_.gatherer, setup_.size, key.status(), doing));
  const std::string mine = std::to_string(slots.slot_bytes) + "/" + *key;
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                          GatherAll(*setup_.gatherer, setup_.size, mine, doing));
  Status opened = Status::Ok();
  const std::string size = std::to_string(slots.slot_bytes) + "/";
  for (int rank = 0; rank < setup_.size && opened.ok(); ++rank) {
    if (rank == setup_.rank) continue;
    if (all[rank].compare(0, size.size(), size) != 0) {
      opened = Status::Error("rank " + std::to_string(rank) + " makes room for other messages (" +
                             all[rank] + ") than rank " + std::to_string(setup_.rank) + " (" +
                             mine + ")");
    } else if (slots.slot_bytes > 0) {
      Result<SharedSegment> theirs =
          SharedSegment::Open(all[rank].substr(size.size()), slots.own.bytes());
      opened = theirs.status();
      if (theirs.ok()) {
        theirs->Close();
        slots.theirs[rank] = std::move(*theirs);
      }
    }
  }
  return GatherVerdict(*setup_.gatherer, setup_.size, opened, doing);
}

Status LoopbackChannel::Reserve(size_t message_bytes, size_t reduction_bytes) {
  const cuda::ContextScope scope(driver_, setup_.context);
  Result<Slots> made = PrepareRoom(message_bytes, reduction_bytes);
  UCUDNN_RETURN_IF_ERROR(
      GatherVerdict(*setup_.gatherer, setup_.size, made.status(), "making room for an exchange"));
  UCUDNN_RETURN_IF_ERROR(OpenOthers(*made));
  made->own.Close();
  if (made->slot_bytes > 0) state_->Replace(std::move(*made));
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<Channel>> OpenLoopbackChannel(const ChannelSetup& setup) {
  const char* const doing = "opening the exchange through shared memory";
  const size_t bytes = Lanes::Bytes(setup.size);
  const auto verdict = [&](const Status& own) {
    return GatherVerdict(*setup.gatherer, setup.size, own, doing);
  };
  Result<SharedSegment> control = SharedSegment();
  Result<std::string> key = std::string();
  if (setup.rank == 0) {
    control = SharedSegment::Make(bytes);
    key = control.ok() ? control->Key() : Result<std::string>(control.status());
  }
  UCUDNN_RETURN_IF_ERROR(verdict(key.status()));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> keys,
                          GatherAll(*setup.gatherer, setup.size, *key, doing));
  if (setup.rank != 0) control = SharedSegment::Open(keys[0], bytes);
  UCUDNN_RETURN_IF_ERROR(verdict(control.status()));
  control->Close();
  auto channel = std::make_unique<LoopbackChannel>(setup, std::move(*control));
  UCUDNN_RETURN_IF_ERROR(verdict(channel->Create()));
  return std::unique_ptr<Channel>(std::move(channel));
}

}  // namespace ucudnn::transport
