// The memory of one virtual device: a sparse memory file that is mapped twice. The application's
// addresses are inaccessible, so code that treats device memory as host memory faults as it would
// on a GPU; the stand-ins use the alias. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace hostgpu {

// A live allocation as the application asked for it.
struct Allocation {
  uintptr_t start = 0;
  size_t bytes = 0;
  uint64_t number = 0;  // never given to another allocation of the device
  size_t BytesFrom(uintptr_t address) const { return start + bytes - address; }
};

class DeviceMemory {
 public:
  // Nothing is mapped before the first allocation.
  explicit DeviceMemory(size_t bytes);

  // First fit at multiples of 512 bytes. Empty if nothing fits (or the system refuses the mapping).
  std::optional<uintptr_t> Allocate(size_t bytes);
  // Returns false if no allocation starts at `address`.
  bool Free(uintptr_t address);
  void FreeAll();

  // Serves memory pools: turns allocations into held ranges, and held ranges into allocations. Held
  // memory counts as used and cannot be found.
  static size_t Rounded(size_t bytes);        // the size that an allocation of `bytes` takes up
  size_t Hold(uintptr_t address);             // the allocation's rounded size
  void Use(uintptr_t address, size_t bytes);  // at the start of a held range
  void Release(uintptr_t address, size_t rounded);  // a held range, or part of one

  // Returns whether `address` lies in this device's address range, allocated or not.
  bool Contains(uintptr_t address) const;
  std::optional<Allocation> Find(uintptr_t address) const;
  void* Alias(uintptr_t address) const { return alias_ + (address - base_); }

  // Returns a new descriptor of the file behind all of the memory, as hostgpuDeviceFile does; -1 if
  // the system refuses.
  int NewFile();
  size_t OffsetOf(uintptr_t address) const { return address - base_; }

  size_t total_bytes() const { return total_; }
  size_t free_bytes() const;

 private:
  bool Map();
  void AddGap(size_t offset, size_t bytes);

  struct Block {
    size_t rounded;
    size_t bytes;
    uint64_t number;
  };
  const size_t total_;
  mutable std::mutex mutex_;
  uintptr_t base_ = 0;
  char* alias_ = nullptr;
  int file_ = -1;  // open while mapped, so that other processes can get it
  size_t used_ = 0;
  uint64_t issued_ = 0;
  std::map<size_t, Block> live_;   // by offset
  std::map<size_t, size_t> gaps_;  // offset to bytes
};

}  // namespace hostgpu
