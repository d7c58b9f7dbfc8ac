#include "transport/loopback_state.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "cuda/capture.h"
#include "transport/background.h"

namespace ucudnn::transport {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Waits until `holds` returns true. Fails if `refused` returns an error, or after `timeout`.
template <class Holds, class Refused>
Status PollFor(Holds holds, Refused refused, milliseconds timeout, const char* what) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (microseconds pause(20); !holds(); pause = std::min(2 * pause, microseconds(1000))) {
    UCUDNN_RETURN_IF_ERROR(refused());
    if (std::chrono::steady_clock::now() >= deadline) {
      return Status::Error(std::string(what) + " takes longer than " +
                           std::to_string(timeout.count()) + " ms");
    }
    std::this_thread::sleep_for(pause);
  }
  return Status::Ok();
}

}  // namespace

RegisteredMemory::~RegisteredMemory() {
  if (memory_ == nullptr) return;
  const cuda::RelaxedCaptureScope relaxed(*driver_);
  driver_->cuMemHostUnregister(memory_);
}

Status RegisteredMemory::Register(char* memory, size_t bytes) {
  const cuda::RelaxedCaptureScope relaxed(*driver_);
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      *driver_,
      driver_->cuMemHostRegister(memory, bytes,
                                 CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE),
      "registering shared memory"));
  memory_ = memory;
  return cuda::DriverStatus(*driver_, driver_->cuMemHostGetDevicePointer(&device_, memory, 0),
                            "asking for the device's address of shared memory");
}

LoopbackState::LoopbackState(const ChannelSetup& setup, SharedSegment control)
    : setup(setup),
      driver(*setup.driver),
      lanes(control.data(), setup.size),
      slots(driver),
      order(driver),
      reduction(setup),
      control_(std::move(control)),
      control_registered_(driver),
      sends_(setup.size),
      receives_(setup.size) {}

// Runs on the thread of the channel's destructor or on the thread that lets streams pass, with the
// context current.
LoopbackState::~LoopbackState() = default;

Status LoopbackState::Create() {
  UCUDNN_RETURN_IF_ERROR(order.Create());
  UCUDNN_RETURN_IF_ERROR(control_registered_.Register(control_.data(), control_.bytes()));
  // The thread is started now, because at the time of an abort the system may have no thread left.
  // The aborting thread cannot let streams pass itself, because it must not wait for them.
  const bool started = RunInBackground([held = shared_from_this()]() mutable {
    held->ReleaseUntilClosed();
    const cuda::ContextScope scope(held->driver, held->setup.context);
    held.reset();
  });
  return started ? Status::Ok() : Status::Error("the system gives no thread for an exchange");
}

Result<Slots> LoopbackState::MakeSlots(size_t slot_bytes) const {
  Slots made(driver);
  made.slot_bytes = slot_bytes;
  const size_t count = static_cast<size_t>(setup.size - 1) * kSlots + kLandings;
  UCUDNN_ASSIGN_OR_RETURN(made.own, SharedSegment::Make(count * slot_bytes));
  UCUDNN_RETURN_IF_ERROR(made.registered.Register(made.own.data(), made.own.bytes()));
  made.theirs.resize(setup.size);
  return made;
}

void LoopbackState::Replace(Slots made) {
  std::swap(slots, made);
  if (was_captured_) replaced_slots_.push_back(std::move(made));
}

char* LoopbackState::SlotOf(int sender, int receiver, uint32_t slot) const {
  const SharedSegment& segment = sender == setup.rank ? slots.own : slots.theirs[sender];
  const size_t other = receiver < sender ? receiver : receiver - 1;
  return segment.data() + (other * kSlots + slot) * slots.slot_bytes;
}

char* LoopbackState::Landing() const {
  const size_t behind = static_cast<size_t>(setup.size - 1) * kSlots + order.is_captured();
  return slots.own.data() + behind * slots.slot_bytes;
}

Status LoopbackState::Begin(CUstream stream) {
  ++depth_;
  UCUDNN_RETURN_IF_ERROR(order.Begin(stream));
  if (!order.is_captured() || depth_ > 1) return Status::Ok();
  was_captured_ = true;
  return Write(lanes.replaying(setup.rank), 1, stream);
}

Status LoopbackState::End(CUstream stream) {
  Status status = Status::Ok();
  if (--depth_ == 0 && order.is_captured()) {
    status = Write(lanes.replaying(setup.rank), 0, stream);
  }
  const Status ended = order.End(stream);
  return status.ok() ? ended : status;
}

Status LoopbackState::Write(const std::atomic<uint32_t>& word, uint32_t value,
                            CUstream stream) const {
  return cuda::DriverStatus(
      driver,
      driver.cuStreamWriteValue32(stream, DeviceOf(word), value, CU_STREAM_WRITE_VALUE_DEFAULT),
      "making a stream write a word");
}

Result<LoopbackState::ReceiveTask*> LoopbackState::NextTaking(CUstream stream) {
  if (order.is_captured()) {
    auto captured = std::make_shared<ReceiveTask>();
    ReceiveTask* const taking = captured.get();
    UCUDNN_RETURN_IF_ERROR(cuda::KeepWithGraphOf(driver, stream, std::move(captured)));
    return taking;
  }
  ReceiveTask& taking = takings_[next_taking_++ % kReceiveTasks];
  UCUDNN_RETURN_IF_ERROR(PollFor([&] { return !taking.pending; }, [this] { return State(); },
                                 setup.timeout, "receiving what was enqueued before"));
  return &taking;
}

Status LoopbackState::EnqueueTaking(const Message& message, uint32_t slot, CUstream stream) {
  UCUDNN_ASSIGN_OR_RETURN(ReceiveTask* const next, NextTaking(stream));
  ReceiveTask& taking = *next;
  taking.state = this;
  taking.peer = message.peer;
  taking.told = &lanes.Between(message.peer, setup.rank).slots[slot].bytes;
  taking.slot = SlotOf(message.peer, setup.rank, slot);
  taking.landing = Landing();
  taking.bytes = message.bytes;
  taking.pending = true;
  const CUresult launched = driver.cuLaunchHostFunc(stream, RunTaking, &taking);
  if (launched != CUDA_SUCCESS) taking.pending = false;
  return cuda::DriverStatus(driver, launched, "enqueuing the receiving of a message");
}

void CUDA_CB LoopbackState::RunTaking(void* argument) {
  ReceiveTask& taking = *static_cast<ReceiveTask*>(argument);
  taking.state->Take(taking);
  taking.pending = false;
}

void LoopbackState::Take(const ReceiveTask& taking) {
  // `told` is read before `aborted`, because an abort sets `aborted` before it raises the word at
  // `told`.
  const uint32_t told = *taking.told;
  bool good = lanes.aborted() == 0;
  if (good && told != SizeWord(taking.bytes)) {
    mismatched_peer_ = taking.peer;
    uint32_t nobody = 0;
    lanes.aborted().compare_exchange_strong(nobody, setup.rank + 1);
    good = false;
  }
  if (good) {
    std::memcpy(taking.landing, taking.slot, taking.bytes);
    // No rank rewrites the slot before this rank's stream frees it, unless words were raised
    // meanwhile; `aborted` is then set. fetch_add is a write, so it cannot be ordered before the
    // reads of the slot.
    good = lanes.aborted().fetch_add(0) == 0;
  }
  if (!good) {
    std::memset(taking.landing, 0xff, taking.bytes);
    // A program that only launches graphs makes no call that would notice the abort. So from here
    // on streams are let pass.
    StartReleasing();
  }
  *taking.told = 0;
}

Result<OrderedReduction*> LoopbackState::ReductionOf(size_t bytes) {
  if (!order.is_captured()) return &reduction;
  const bool has_room =
      !captured_reductions_.empty() && (captured_reductions_.back().HasRoomFor(bytes) ||
                                        captured_reductions_.back().room() == reduction.room());
  if (!has_room) {
    const cuda::RelaxedCaptureScope relaxed(driver);
    const Status made = captured_reductions_.emplace_back(setup).Reserve(reduction.room());
    if (!made.ok()) {
      captured_reductions_.pop_back();
      return made;
    }
  }
  return &captured_reductions_.back();
}

size_t LoopbackState::device_bytes() const {
  size_t bytes = reduction.device_bytes();
  for (const OrderedReduction& captured : captured_reductions_) bytes += captured.device_bytes();
  return bytes;
}

Status LoopbackState::AwaitDone(milliseconds timeout) const {
  return PollFor([this] { return order.Done(); }, [this] { return State(); }, timeout,
                 "an exchange");
}

Status LoopbackState::AwaitIdle(milliseconds timeout) const {
  return PollFor([this] { return !IsRunning(); }, [this] { return State(); }, timeout,
                 "an exchange");
}

Status LoopbackState::State() const {
  if (const int peer = mismatched_peer_; peer >= 0) {
    return Status::Error("rank " + std::to_string(peer) + " sent a message to rank " +
                         std::to_string(setup.rank) + " that has not the size it expects");
  }
  const uint32_t aborted = lanes.aborted();
  if (aborted == 0) return Status::Ok();
  return Status::Error("rank " + std::to_string(aborted - 1) + " aborted the exchange");
}

void LoopbackState::Abort() {
  uint32_t nobody = 0;
  lanes.aborted().compare_exchange_strong(nobody, setup.rank + 1);
  lanes.RaiseAll();
  StartReleasing();
}

void LoopbackState::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.NotifyAll();
}

void LoopbackState::StartReleasing() {
  MutexLock lock(mutex_);
  releases_ = true;
  changed_.NotifyAll();
}

void LoopbackState::Release(const std::function<bool()>& is_over) const {
  for (milliseconds pause(1); !is_over(); pause = std::min(2 * pause, milliseconds(10))) {
    lanes.RaiseAll();
    std::this_thread::sleep_for(pause);
  }
}

// Graphs may be launched, unseen by this class, until the channel is closed. A graph that is
// running when the channel is closed may be between two of its calls. So this function lets streams
// pass for kLeavingTime after the closing, too.
void LoopbackState::ReleaseUntilClosed() {
  {
    MutexLock lock(mutex_);
    while (!releases_ && !closed_) changed_.Wait(mutex_);
    if (!releases_) return;
  }
  const cuda::ContextScope scope(driver, setup.context);
  Release([this] { return closed_.load(); });
  const auto closed = std::chrono::steady_clock::now();
  Release([this, closed] {
    const bool may_replay =
        was_captured_ && std::chrono::steady_clock::now() < closed + kLeavingTime;
    return !may_replay && !IsRunning();
  });
}

}  // namespace ucudnn::transport
