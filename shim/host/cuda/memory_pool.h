// Stream-ordered memory of one device: pools that keep freed memory until work on a stream may use
// it again, or until a synchronisation returns it. Thread-safe. A pool's memory counts against the
// device from the moment the pool reserves it, as on a GPU; but here, reserved memory that is not
// allocated cannot be accessed.
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
    std::vector<Ticket> after;  // the frees that must be done before it is used again
  };

  size_t limit = std::numeric_limits<size_t>::max();
  uint64_t reserved = 0;
  bool destroyed = false;  // by the application; the pool is kept while its memory is allocated
  std::map<uintptr_t, Unused> unused;  // by address; neighbours are merged
};

class StreamOrderedMemory {
 public:
  explicit StreamOrderedMemory(DeviceMemory& memory) : memory_(memory) {}

  MemoryPool* Create(size_t limit);  // at most `limit` bytes are reserved; 0: no limit
  // Allocated memory of the pool stays valid until it is freed. Returns false if it is no live
  // pool.
  bool Destroy(MemoryPool* pool);
  // Returns whether `pool` is a live pool of this device.
  bool Has(MemoryPool* pool);

  // Allocates memory for later work on `stream`; that work must wait for `after`, which is set.
  // Empty if the pool does not exist, or neither it nor the device has room.
  std::optional<uintptr_t> Allocate(MemoryPool* pool, size_t bytes, const Stream& stream,
                                    std::vector<Ticket>* after);
  bool Allocated(uintptr_t address);
  // Frees memory, which may be used again when `after` is done. Returns false if it is no live
  // allocation of a pool.
  bool Free(uintptr_t address, const Ticket& after);

  // Returns unused memory to the device, as far as the frees are done, as a synchronisation does.
  void ReleaseUnused();
  bool HoldsUnused();
  // To be called when all of the device's memory was freed at once.
  void Forget();

 private:
  bool Live(MemoryPool* pool) const;
  void Release(MemoryPool& pool);
  void DropDestroyed();
  bool Reuse(MemoryPool& pool, size_t bytes, const Stream& stream, bool wait, uintptr_t* address,
             std::vector<Ticket>* after);

  DeviceMemory& memory_;
  std::mutex mutex_;
  std::map<MemoryPool*, std::unique_ptr<MemoryPool>> pools_;
  std::map<uintptr_t, MemoryPool*> owners_;  // of live allocations
};

}  // namespace hostgpu
