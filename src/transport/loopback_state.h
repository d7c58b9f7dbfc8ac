// What one rank of a loopback channel holds: shared memory, what of it the device reaches, and the
// host's part in receiving. It lives until its streams are done with it. What a graph holds the
// address of stays where it is for as long.
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

// Host memory that the device reaches. The context is current at both ends.
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
  // The device's address of a byte or word of it.
  CUdeviceptr DeviceOf(const void* place) const {
    return device_ + static_cast<size_t>(static_cast<const char*>(place) - memory_);
  }

 private:
  const cuda::Driver* driver_;
  char* memory_ = nullptr;
  CUdeviceptr device_ = 0;
};

// Where the data passes: each rank has kSlots slots for each other rank in a segment of its own,
// and behind them two landings, in which it puts down what it receives: graphs may run beside
// uncaptured calls.
inline constexpr size_t kLandings = 2;  // of uncaptured messages, and of captured ones
struct Slots {
  explicit Slots(const cuda::Driver& driver) : registered(driver) {}

  size_t slot_bytes = 0;
  SharedSegment own;
  RegisteredMemory registered;        // `own`
  std::vector<SharedSegment> theirs;  // by rank; empty for this one
};

class LoopbackState : public std::enable_shared_from_this<LoopbackState> {
 public:
  LoopbackState(const ChannelSetup& setup, SharedSegment control);
  ~LoopbackState();
  LoopbackState(const LoopbackState&) = delete;
  LoopbackState& operator=(const LoopbackState&) = delete;

  Status Create();

  // Makes this rank's slots. The caller opens the others'.
  Result<Slots> MakeSlots(size_t slot_bytes) const;
  // Messages go through these from now on. The former slots live on where a graph may hold them.
  void Replace(Slots made);
  // Where the sender of the lane puts its message, and where this rank puts it down in the call
  // that has begun.
  char* SlotOf(int sender, int receiver, uint32_t slot) const;
  char* Landing() const;
  // The slots of the next message to, or from, `peer` in the call that has begun.
  uint32_t NextSlotTo(int peer) { return NextSlot(sends_[peer]); }
  uint32_t NextSlotFrom(int peer) { return NextSlot(receives_[peer]); }

  // CallOrder::Begin and End of `order`, and what tells that a captured call runs. A call may
  // make others. REQUIRES: End follows each Begin, also one that failed.
  Status Begin(CUstream stream);
  Status End(CUstream stream);

  // Enqueues the host's part of receiving: takes the message out of the slot, or NaN where it is
  // not what was to come. Outside a capture it waits where hundreds of messages are still to be
  // received.
  Status EnqueueTaking(const Message& message, uint32_t slot, CUstream stream);

  // What the call that has begun reduces a sum of `bytes` by.
  Result<OrderedReduction*> ReductionOf(size_t bytes);
  size_t device_bytes() const;

  // Waits until what uncaptured calls enqueued is done.
  Status AwaitDone(std::chrono::milliseconds timeout) const;
  // The same before the channel is closed, and for captured calls that run now.
  Status AwaitIdle(std::chrono::milliseconds timeout) const;
  // An error in words after an abort.
  Status State() const;
  // Says that this rank gives up, and has all streams let pass until the channel is closed and its
  // own streams are done. Waits for nobody.
  void Abort();
  // The channel makes no more calls, and no graph is launched any more that holds one.
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
  OrderedReduction reduction;  // of uncaptured calls

 private:
  // What the host function of one message needs. Those of uncaptured messages serve in turn; there
  // are so many that a host must be far ahead of its stream to wait for one. A captured message has
  // one of its own, which its graph owns.
  struct Taking {
    LoopbackState* state = nullptr;
    int peer = 0;
    std::atomic<uint32_t>* told = nullptr;  // `bytes` of the slot
    const char* slot = nullptr;
    char* landing = nullptr;
    size_t bytes = 0;
    std::atomic<bool> pending{false};  // nothing where it is of a captured message
  };
  static constexpr size_t kTakings = 256;

  uint32_t NextSlot(uint32_t& count) const {
    return order.is_captured() ? kCapturedSlot : count++ % kSlotsInTurn;
  }
  Result<Taking*> NextTaking(CUstream stream);
  static void CUDA_CB RunTaking(void* taking);
  void Take(const Taking& taking);

  // Whether a stream of this rank is in what a call enqueued. Between two calls of one graph
  // nothing tells that it is under way.
  bool IsRunning() const { return !order.Done() || lanes.replaying(setup.rank) != 0; }
  // Has the thread that Create starts let streams pass until the channel is closed.
  void StartReleasing();
  // What that thread does: it waits for StartReleasing, or for the channel's end.
  void ReleaseUntilClosed();
  // Lets streams pass until `is_over`.
  void Release(const std::function<bool()>& is_over) const;

  SharedSegment control_;
  RegisteredMemory control_registered_;
  // By peer, how many uncaptured messages were enqueued.
  std::vector<uint32_t> sends_, receives_;
  std::array<Taking, kTakings> takings_;
  size_t next_taking_ = 0;
  std::atomic<int> mismatched_peer_{-1};

  int depth_ = 0;                          // calls that have begun and not ended
  std::atomic<bool> was_captured_{false};  // a call was: graphs may be launched at any time
  std::deque<Slots> replaced_slots_;
  std::deque<OrderedReduction> captured_reductions_;  // what is captured since uses the last

  Mutex mutex_;
  Condition changed_;
  bool releases_ UCUDNN_GUARDED_BY(mutex_) = false;  // StartReleasing was called
  std::atomic<bool> closed_{false};                  // Close was called
};

}  // namespace ucudnn::transport
