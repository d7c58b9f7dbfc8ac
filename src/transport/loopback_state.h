// The state of one rank of a loopback channel: shared memory, the device's addresses of that
// memory, and the host's part of receiving. The state exists until its streams are done with it.
// Memory that a graph may use stays in place as long as the state exists.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "transport/call_order.h"
#include "transport/channel.h"
#include "transport/lanes.h"
#include "transport/ordered_reduction.h"
#include "transport/shared_segment.h"

namespace ucudnn::transport {

// Host memory that is registered with the device. The context must be current at Register and at
// destruction.
class RegisteredMemory {
 public:
  explicit RegisteredMemory(const cuda::Driver& driver) : driver_(&driver) {}
  RegisteredMemory(RegisteredMemory&& other) noexcept : driver_(other.driver_) {
    *this = std::move(other);
  }
  RegisteredMemory& operator=(RegisteredMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(device_, other.device_);
    return *this;
  }
  ~RegisteredMemory();

  Status Register(char* memory, size_t bytes);
  // Returns the device's address of `place` in this memory.
  CUdeviceptr DeviceOf(const void* place) const {
    return device_ + static_cast<size_t>(static_cast<const char*>(place) - memory_);
  }

 private:
  const cuda::Driver* driver_;
  char* memory_ = nullptr;
  CUdeviceptr device_ = 0;
};

// The memory for the data. Each rank has its own segment, with kSlots slots for each other rank,
// followed by two landings. The rank copies received messages into a landing. Graphs may run at the
// same time as uncaptured calls, so captured and uncaptured messages have different landings.
inline constexpr size_t kLandings = 2;  // one for uncaptured messages, one for captured ones
struct Slots {
  explicit Slots(const cuda::Driver& driver) : registered(driver) {}

  size_t slot_bytes = 0;
  SharedSegment own;
  RegisteredMemory registered;        // `own`, registered with the device
  std::vector<SharedSegment> theirs;  // by rank; empty for this rank
};

class LoopbackState : public std::enable_shared_from_this<LoopbackState> {
 public:
  LoopbackState(const ChannelSetup& setup, SharedSegment control);
  ~LoopbackState();
  LoopbackState(const LoopbackState&) = delete;
  LoopbackState& operator=(const LoopbackState&) = delete;

  Status Create();

  // Makes this rank's slots. The caller must then open the other ranks' slots.
  Result<Slots> MakeSlots(size_t slot_bytes) const;
  // Uses `made` for all messages from now on. Keeps the former slots if a graph may use them.
  void Replace(Slots made);
  // SlotOf returns the place where the sender of the lane puts its message. Landing returns this
  // rank's landing for messages of the call that has begun.
  char* SlotOf(int sender, int receiver, uint32_t slot) const;
  char* Landing() const;
  // NextSlotTo and NextSlotFrom return the slot of the next message to or from `peer` in the call
  // that has begun.
  uint32_t NextSlotTo(int peer) { return NextSlot(sends_[peer]); }
  uint32_t NextSlotFrom(int peer) { return NextSlot(receives_[peer]); }

  // Begin and End call the functions of the same names of `order`. Around a captured call they also
  // enqueue writes of 1 and 0 to this rank's word `replaying`. Calls may be nested. REQUIRES: End
  // follows each Begin, even one that failed.
  Status Begin(CUstream stream);
  Status End(CUstream stream);

  // Enqueues the host's part of receiving: copies the message from the slot to the landing, or
  // writes NaN to the landing if the message has another size or a rank has aborted. Outside a
  // capture, waits if hundreds of messages are still to be received.
  Status EnqueueTaking(const Message& message, uint32_t slot, CUstream stream);

  // Returns the reduction for sums of `bytes` in the call that has begun.
  Result<OrderedReduction*> ReductionOf(size_t bytes);
  size_t device_bytes() const;

  // Waits until all work of uncaptured calls is done.
  Status AwaitDone(std::chrono::milliseconds timeout) const;
  // To be called before the channel is closed: waits until the work of all calls is done, including
  // captured calls that are running.
  Status AwaitIdle(std::chrono::milliseconds timeout) const;
  // Returns an error if a rank has aborted, or if a received message had the wrong size. The error
  // names the rank that aborted or sent the message.
  Status State() const;
  // Tells the other ranks that this rank gives up. From then on all streams are let pass, until the
  // channel is closed and this rank's streams are done. Does not wait.
  void Abort();
  // Declares that the channel makes no more calls, and that no graph that contains one of its calls
  // will be launched any more.
  void Close();

  Status Write(const std::atomic<uint32_t>& word, uint32_t value, CUstream stream) const;
  CUdeviceptr DeviceOf(const std::atomic<uint32_t>& word) const {
    return control_registered_.DeviceOf(&word);
  }

  const ChannelSetup setup;
  const cuda::Driver& driver;
  const Lanes lanes;
  Slots slots;
  CallOrder order;
  OrderedReduction reduction;  // for uncaptured calls

 private:
  // The arguments of the host function that takes one message. Uncaptured messages use
  // kReceiveTasks objects in turn. These are so many that a host waits for a free object only if
  // the host is far ahead of its stream. Each captured message has an object of its own, which its
  // graph owns.
  struct ReceiveTask {
    LoopbackState* state = nullptr;
    int peer = 0;
    std::atomic<uint32_t>* told = nullptr;  // the word `bytes` of the slot
    const char* slot = nullptr;
    char* landing = nullptr;
    size_t bytes = 0;
    std::atomic<bool> pending{false};  // unused for a captured message
  };
  static constexpr size_t kReceiveTasks = 256;

  uint32_t NextSlot(uint32_t& count) const {
    return order.is_captured() ? kCapturedSlot : count++ % kSlotsInTurn;
  }
  Result<ReceiveTask*> NextTaking(CUstream stream);
  static void CUDA_CB RunTaking(void* taking);
  void Take(const ReceiveTask& taking);

  // Returns whether a stream of this rank is running the work of a call. Returns false while a
  // launched graph is between two of its calls, even though it is still running.
  bool IsRunning() const { return !order.Done() || lanes.replaying(setup.rank) != 0; }
  // From now on, until the channel is closed, the thread that Create has started lets streams pass.
  void StartReleasing();
  // Runs on the thread that Create has started. Waits for StartReleasing or Close, then lets
  // streams pass if StartReleasing was called.
  void ReleaseUntilClosed();
  // Lets streams pass until `is_over` returns true.
  void Release(const std::function<bool()>& is_over) const;

  SharedSegment control_;
  RegisteredMemory control_registered_;
  // The number of uncaptured messages that were enqueued to and from each peer.
  std::vector<uint32_t> sends_, receives_;
  std::array<ReceiveTask, kReceiveTasks> takings_;
  size_t next_taking_ = 0;
  std::atomic<int> mismatched_peer_{-1};

  int depth_ = 0;  // how many calls have begun but not ended
  // True once a call was captured. From then on graphs may be launched at any time.
  std::atomic<bool> was_captured_{false};
  std::deque<Slots> replaced_slots_;
  std::deque<OrderedReduction> captured_reductions_;  // new captured calls use the last one

  Mutex mutex_;
  Condition changed_;
  bool releases_ UCUDNN_GUARDED_BY(mutex_) = false;  // StartReleasing was called
  std::atomic<bool> closed_{false};                  // Close was called
};

}  // namespace ucudnn::transport
