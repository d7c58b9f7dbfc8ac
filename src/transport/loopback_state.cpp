#include "transport/loopback_state.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "transport/background.h"

namespace ucudnn::transport {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Until `holds`, or what `refused` says is an error, or it is too late.
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
      control_registered_(driver) {}

// The context is current: the channel's destructor, or a thread that waited in Abort.
LoopbackState::~LoopbackState() = default;

Status LoopbackState::Create() {
  UCUDNN_RETURN_IF_ERROR(order.Create());
  return control_registered_.Register(control_.data(), control_.bytes());
}

Result<Slots> LoopbackState::MakeSlots(size_t slot_bytes) const {
  Slots made(driver);
  made.slot_bytes = slot_bytes;
  const size_t count = static_cast<size_t>(setup.size - 1) * kSlots + 1;
  UCUDNN_ASSIGN_OR_RETURN(made.own, SharedSegment::Make(count * slot_bytes));
  UCUDNN_RETURN_IF_ERROR(made.registered.Register(made.own.data(), made.own.bytes()));
  made.theirs.resize(setup.size);
  return made;
}

char* LoopbackState::SlotOf(int sender, int receiver, uint32_t number) const {
  const SharedSegment& segment = sender == setup.rank ? slots.own : slots.theirs[sender];
  const size_t other = receiver < sender ? receiver : receiver - 1;
  return segment.data() + (other * kSlots + number % kSlots) * slots.slot_bytes;
}

char* LoopbackState::landing() const {
  return slots.own.data() + (setup.size - 1) * kSlots * slots.slot_bytes;
}

Status LoopbackState::EnqueueTaking(const Message& message, uint32_t number, CUstream stream) {
  Taking& taking = takings_[next_taking_++ % kTakings];
  UCUDNN_RETURN_IF_ERROR(PollFor([&] { return !taking.pending; }, [this] { return State(); },
                                 setup.timeout, "receiving what was enqueued before"));
  taking.state = this;
  taking.peer = message.peer;
  taking.number = number;
  taking.bytes = message.bytes;
  taking.pending = true;
  const CUresult launched = driver.cuLaunchHostFunc(stream, RunTaking, &taking);
  if (launched != CUDA_SUCCESS) taking.pending = false;
  return cuda::DriverStatus(driver, launched, "enqueuing the receiving of a message");
}

void CUDA_CB LoopbackState::RunTaking(void* argument) {
  Taking& taking = *static_cast<Taking*>(argument);
  taking.state->Take(taking);
  taking.pending = false;
}

void LoopbackState::Take(const Taking& taking) {
  const Lane& lane = lanes.Between(taking.peer, setup.rank);
  bool good = lanes.aborted() == 0;
  if (good && lane.bytes[taking.number % kSlots] != static_cast<uint32_t>(taking.bytes)) {
    mismatched_peer_ = taking.peer;
    uint32_t nobody = 0;
    lanes.aborted().compare_exchange_strong(nobody, setup.rank + 1);
    good = false;
  }
  if (good) {
    std::memcpy(landing(), SlotOf(taking.peer, setup.rank, taking.number), taking.bytes);
    // Nobody rewrites the slot before this rank's stream says it is taken, unless flags were raised
    // meanwhile: then this sees the abort that came before. It writes so that it cannot be read
    // before the slot is.
    good = lanes.aborted().fetch_add(0) == 0;
  }
  if (!good) std::memset(landing(), 0xff, taking.bytes);
}

Status LoopbackState::AwaitDone(milliseconds timeout) const {
  return PollFor([this] { return order.Done(); }, [this] { return State(); }, timeout,
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

void LoopbackState::Abort(const std::shared_ptr<LoopbackState>& state) {
  uint32_t nobody = 0;
  state->lanes.aborted().compare_exchange_strong(nobody, state->setup.rank + 1);
  state->lanes.RaiseAll();
  if (state->releasing_.exchange(true)) return;
  const bool started = RunInBackground([held = state]() mutable {
    const cuda::ContextScope scope(held->driver, held->setup.context);
    held->KeepReleasing();
    held.reset();  // with the context current
  });
  if (started) return;
  // Streams must not wait for ever, so the caller does until they are done.
  const cuda::ContextScope scope(state->driver, state->setup.context);
  state->KeepReleasing();
}

// Streams of ranks that do not know yet may write earlier numbers behind RaiseAll.
void LoopbackState::KeepReleasing() {
  do {
    for (milliseconds pause(1); !order.Done(); pause = std::min(2 * pause, milliseconds(10))) {
      lanes.RaiseAll();
      std::this_thread::sleep_for(pause);
    }
    releasing_ = false;
    // What was enqueued meanwhile, by a call that relied on this thread, is seen now.
  } while (!order.Done() && !releasing_.exchange(true));
}

}  // namespace ucudnn::transport
