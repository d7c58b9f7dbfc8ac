// The state of one rank of a loopback channel: shared memory, its addresses on the device, and the
// host's part of receiving. It lives until its streams are done with it. Memory whose address a
// graph holds stays in place as long.
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

// Host memory that the device can access. The context must be current at construction and
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
  // Returns the device's address of a place in this memory.
  CUdeviceptr DeviceOf(const void* place) const {
    return device_ + static_cast<size_t>(static_cast<const char*>(place) - memory_);
  }

 private:
  const cuda::Driver* driver_;
  char* memory_ = nullptr;
  CUdeviceptr device_ = 0;
};

// The memory for the data. Each rank has kSlots slots for each other rank in a segment of its own,
// and behind them two landings, into which it copies what it receives. There are two because graphs
// may run beside uncaptured calls.
inline constexpr size_t kLandings = 2;  // one for uncaptured messages, one for captured ones
struct Slots {
  explicit Slots(const cuda::Driver& driver) : registered(driver) {}

  size_t slot_bytes = 0;
  SharedSegment own;
  RegisteredMemory registered;        // registers `own`
  std::vector<SharedSegment> theirs;  // by rank; empty for this one
};

class LoopbackState : public std::enable_shared_from_this<LoopbackState> {
 public:
  LoopbackState(const ChannelSetup& setup, SharedSegment control);
  ~LoopbackState();
  LoopbackState(const LoopbackState&) = delete;
  LoopbackState& operator=(const LoopbackState&) = delete;

  Status Create();

  // Makes this rank's slots. The caller opens the other ranks' slots.
  Result<Slots> MakeSlots(size_t slot_bytes) const;
  // Makes messages go through these slots from now on. The former slots live on if a graph may hold
  // them.
  void Replace(Slots made);
  // Returns the slot in which the sender of the lane puts its message, and the landing for messages
  // of the call that has begun.
  char* SlotOf(int sender, int receiver, uint32_t slot) const;
  char* Landing() const;
  // Returns the slot of the next message to, or from, `peer` in the call that has begun.
  uint32_t NextSlotTo(int peer) { return NextSlot(sends_[peer]); }
  uint32_t NextSlotFrom(int peer) { return NextSlot(receives_[peer]); }

  // CallOrder::Begin and End of `order`; they also mark that a captured call runs. A call may make
  // others. REQUIRES: End follows each Begin, even one that failed.
  Status Begin(CUstream stream);
  Status End(CUstream stream);

  // Enqueues the host's part of receiving: takes the message out of the slot, or NaN if it is not
  // the expected one. Outside a capture it waits if hundreds of messages are still to be received.
  Status EnqueueTaking(const Message& message, uint32_t slot, CUstream stream);

  // Returns the reduction for a sum of `bytes` in the call that has begun.
  Result<OrderedReduction*> ReductionOf(size_t bytes);
  size_t device_bytes() const;

  // Waits until all work of uncaptured calls is done.
  Status AwaitDone(std::chrono::milliseconds timeout) const;
  // Waits, before the channel is closed, until the work of all calls is done, including captured
  // calls that run now.
  Status AwaitIdle(std::chrono::milliseconds timeout) const;
  // Returns Ok, or after an abort an error that says who aborted.
  Status State() const;
  // Tells the other ranks that this rank gives up, and lets all streams pass until the channel is
  // closed and its own streams are done. Does not wait.
  void Abort();
  // Declares that the channel makes no more calls, and that no graph with a call of it is launched
  // any more.
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
  // The arguments of the host function of one message. Arguments of uncaptured messages are used in
  // turn; there are enough that only a host far ahead of its stream waits for one. A captured
  // message has its own, which its graph owns.
  struct Taking {
    LoopbackState* state = nullptr;
    int peer = 0;
    std::atomic<uint32_t>* told = nullptr;  // `bytes` of the slot
    const char* slot = nullptr;
    char* landing = nullptr;
    size_t bytes = 0;
    std::atomic<bool> pending{false};  // not used for a captured message
  };
  static constexpr size_t kTakings = 256;

  uint32_t NextSlot(uint32_t& count) const {
    return order.is_captured() ? kCapturedSlot : count++ % kSlotsInTurn;
  }
  Result<Taking*> NextTaking(CUstream stream);
  static void CUDA_CB RunTaking(void* taking);
  void Take(const Taking& taking);

  // Returns whether a stream of this rank is in the work of a call. A graph that is between two of
  // its calls does not show.
  bool IsRunning() const { return !order.Done() || lanes.replaying(setup.rank) != 0; }
  // Makes the thread that Create started let streams pass until the channel is closed.
  void StartReleasing();
  // The function of that thread. It waits for StartReleasing, or until the channel is closed.
  void ReleaseUntilClosed();
  // Lets streams pass until `is_over` returns true.
  void Release(const std::function<bool()>& is_over) const;

  SharedSegment control_;
  RegisteredMemory control_registered_;
  // The number of uncaptured messages that were enqueued for each peer.
  std::vector<uint32_t> sends_, receives_;
  std::array<Taking, kTakings> takings_;
  size_t next_taking_ = 0;
  std::atomic<int> mismatched_peer_{-1};

  int depth_ = 0;  // calls that have begun and not ended
  // Some call was captured, so graphs may be launched at any time.
  std::atomic<bool> was_captured_{false};
  std::deque<Slots> replaced_slots_;
  std::deque<OrderedReduction> captured_reductions_;  // new captured calls use the last one

  Mutex mutex_;
  Condition changed_;
  bool releases_ UCUDNN_GUARDED_BY(mutex_) = false;  // StartReleasing was called
  std::atomic<bool> closed_{false};                  // Close was called
};

}  // namespace ucudnn::transport
