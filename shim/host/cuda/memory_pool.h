// Stream-ordered memory of one device: pools that keep what was freed in them until work on a
// stream may use it again, or until a synchronisation gives back what exceeds the pool's release
// threshold. Thread-safe. A pool's memory counts against the device from the moment the pool
// reserves it, as on a GPU; unlike there, reserved memory that is not allocated cannot be accessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "shim/host/cuda/memory.h"
#include "shim/host/cuda/stream.h"

namespace hostgpu {

// One pool, guarded by the mutex of the StreamOrderedMemory it belongs to. Sizes in bytes.
struct MemoryPool {
  struct Unused {
    size_t bytes;
    std::vector<Ticket> after;  // the frees that must have been reached before it is used again
  };

  size_t limit = std::numeric_limits<size_t>::max();
  uint64_t release_threshold = 0;
  uint64_t reserved = 0, reserved_high = 0;
  uint64_t used = 0, used_high = 0;
  int follow_event_dependencies = 1;  // permits what this allocator never needs to do
  int allow_opportunistic = 1;
  int allow_internal_dependencies = 1;
  bool destroyed = false;              // by the application; kept while memory of it is out
  std::map<uintptr_t, Unused> unused;  // by address; neighbours are merged
};

class StreamOrderedMemory {
 public:
  explicit StreamOrderedMemory(DeviceMemory& memory);

  MemoryPool* Default() const { return default_; }
  MemoryPool* Create(size_t limit);  // `limit` bytes at most are reserved; 0: no limit
  // Memory of it that is out stays valid until it is freed. False for what is no live pool, and for
  // the default one.
  bool Destroy(MemoryPool* pool);

  // Runs use(pool) under the lock; false when `pool` is no live pool of this device.
  template <class Use>
  bool With(MemoryPool* pool, Use use) {
    std::lock_guard lock(mutex_);
    if (!Live(pool)) return false;
    use(*pool);
    return true;
  }

  // Memory for work that `stream` gets from now on; that work must wait for `after`, which is set.
  // Empty when the pool is gone or neither it nor the device has room.
  std::optional<uintptr_t> Allocate(MemoryPool* pool, size_t bytes, const Stream& stream,
                                    std::vector<Ticket>* after);
  bool Allocated(uintptr_t address);
  // The memory may be used again when `after` is done. False when it is no live allocation of a
  // pool.
  bool Free(uintptr_t address, const Ticket& after);

  // Gives unused memory back to the device until `keep` bytes are reserved, as far as the frees are
  // done. False when `pool` is no live pool of this device.
  bool Trim(MemoryPool* pool, size_t keep);
  // What a synchronisation does: every pool is trimmed to its release threshold.
  void ReleaseBeyondThresholds();
  void ReleaseAll();
  bool HoldsUnused();
  // The device's memory was taken away as a whole.
  void Forget();

 private:
  bool Live(MemoryPool* pool) const;
  void TrimLocked(MemoryPool& pool, uint64_t keep);
  void DropDestroyed();
  bool Reuse(MemoryPool& pool, size_t bytes, const Stream& stream, bool wait, uintptr_t* address,
             std::vector<Ticket>* after);

  DeviceMemory& memory_;
  std::mutex mutex_;
  std::map<MemoryPool*, std::unique_ptr<MemoryPool>> pools_;
  std::map<uintptr_t, MemoryPool*> owners_;  // of live allocations
  MemoryPool* default_ = nullptr;
};

}  // namespace hostgpu
