// What one rank of a loopback channel holds: shared memory, what of it the device reaches, and the
// host's part in receiving. It lives until its streams are done with it.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

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
// and behind them one in which it puts down what it receives.
struct Slots {
  explicit Slots(const cuda::Driver& driver) : registered(driver) {}

  size_t slot_bytes = 0;
  SharedSegment own;
  RegisteredMemory registered;        // `own`
  std::vector<SharedSegment> theirs;  // by rank; empty for this one
};

class LoopbackState {
 public:
  LoopbackState(const ChannelSetup& setup, SharedSegment control);
  ~LoopbackState();
  LoopbackState(const LoopbackState&) = delete;
  LoopbackState& operator=(const LoopbackState&) = delete;

  Status Create();

  // Makes this rank's slots. The caller opens the others'.
  Result<Slots> MakeSlots(size_t slot_bytes) const;
  // Where the sender of the lane puts its message, and where this rank puts it down.
  char* SlotOf(int sender, int receiver, uint32_t number) const;
  char* landing() const;

  // Enqueues the host's part of receiving: takes the message of `number` out of its slot, or NaN
  // where it is not what was to come. Waits where thousands of bytes are still to be received.
  Status EnqueueTaking(const Message& message, uint32_t number, CUstream stream);

  // Waits until what was enqueued is done.
  Status AwaitDone(std::chrono::milliseconds timeout) const;
  // An error in words after an abort.
  Status State() const;
  // Says that this rank gives up, and lets all streams pass until its own are done.
  static void Abort(const std::shared_ptr<LoopbackState>& state);

  CUdeviceptr DeviceOf(const std::atomic<uint32_t>& word) const {
    return control_registered_.DeviceOf(&word);
  }

  const ChannelSetup setup;
  const cuda::Driver& driver;
  const Lanes lanes;
  Slots slots;
  CallOrder order;
  OrderedReduction reduction;

 private:
  // What the host function of one message needs. They serve in turn; there are so many that a host
  // must be far ahead of its stream to wait for one.
  struct Taking {
    LoopbackState* state = nullptr;
    int peer = 0;
    uint32_t number = 0;
    size_t bytes = 0;
    std::atomic<bool> pending{false};
  };
  static constexpr size_t kTakings = 256;

  static void CUDA_CB RunTaking(void* taking);
  void Take(const Taking& taking);
  void KeepReleasing();

  SharedSegment control_;
  RegisteredMemory control_registered_;
  std::array<Taking, kTakings> takings_;
  size_t next_taking_ = 0;
  std::atomic<int> mismatched_peer_{-1};
  std::atomic<bool> releasing_{false};  // a thread lets streams pass
};

}  // namespace ucudnn::transport
