// Stream-ordered memory of one device. A pool keeps freed memory for later allocations. It gives
// unused memory back to the device at a synchronisation, or when an allocation does not find enough
// free memory. Thread-safe. As on a GPU, memory that a pool has reserved counts as used memory of
// the device. Unlike on a GPU, memory that is reserved but not allocated cannot be accessed.
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

// One pool, guarded by the mutex of the StreamOrderedMemory that owns the pool. Sizes are in bytes.
struct MemoryPool {
  struct Unused {
    size_t bytes;
    // Tickets of the frees that must be done before this memory is used again.
    std::vector<Ticket> after;
  };

  size_t limit = std::numeric_limits<size_t>::max();
  uint64_t reserved = 0;
  // The application destroyed the pool; the object is kept while its memory is allocated.
  bool destroyed = false;
  std::map<uintptr_t, Unused> unused;  // unused ranges by address; adjacent ranges are merged
};

class StreamOrderedMemory {
 public:
  explicit StreamOrderedMemory(DeviceMemory& memory) : memory_(memory) {}

  MemoryPool* Create(size_t limit);  // the pool reserves at most `limit` bytes; 0: no limit
  // Destroys the pool, but its allocated memory stays valid until it is freed. Returns false if
  // `pool` is no live pool.
  bool Destroy(MemoryPool* pool);
  // Returns true if `pool` is a live pool of this device.
  bool Has(MemoryPool* pool);

  // Allocates memory for later work on `stream`. Sets `after` to the tickets for which that work
  // must wait. Returns none if the pool does not exist, or if neither the pool nor the device has
  // enough free memory.
  std::optional<uintptr_t> Allocate(MemoryPool* pool, size_t bytes, const Stream& stream,
                                    std::vector<Ticket>* after);
  bool Allocated(uintptr_t address);
  // Frees memory, which may be used again when `after` is done. Returns false if `address` is no
  // live allocation of a pool.
  bool Free(uintptr_t address, const Ticket& after);

  // Gives each unused range back to the device if the frees that made it unused are done. A GPU
  // does this at a synchronisation.
  void ReleaseUnused();
  bool HoldsUnused();
  // Forgets all allocations and all unused memory. Called when all memory of the device was freed
  // at once.
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
  std::map<uintptr_t, MemoryPool*> owners_;  // the pool of each live allocation, by address
};

}  // namespace hostgpu
