// The memory of one virtual device: a sparse memory file that is mapped twice. The addresses that
// the application gets are inaccessible, so code that dereferences device addresses on the host
// faults, as with a GPU. The stand-ins use the second mapping, the alias. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace hostgpu {

// A live allocation with the size that the application asked for.
struct Allocation {
  uintptr_t start = 0;
  size_t bytes = 0;
  uint64_t number = 0;  // unique among all allocations of the device
  size_t BytesFrom(uintptr_t address) const { return start + bytes - address; }
};

class DeviceMemory {
 public:
  // Maps no memory yet; the first call of Allocate or NewFile maps it.
  explicit DeviceMemory(size_t bytes);

  // Allocates memory in the first gap that is large enough, at a multiple of 512 bytes. Returns
  // none if there is no such gap, or if the system refuses the mapping.
  std::optional<uintptr_t> Allocate(size_t bytes);
  // Returns false if no allocation starts at `address`.
  bool Free(uintptr_t address);
  void FreeAll();

  // Functions for memory pools. They turn an allocation into a held range, and a held range into an
  // allocation or into free memory. Held memory counts as used, but Find does not find it.
  static size_t Rounded(size_t bytes);  // returns the size that an allocation of `bytes` occupies
  size_t Hold(uintptr_t address);       // makes an allocation a held range; returns its size
  void Use(uintptr_t address, size_t bytes);  // allocates `bytes` at the start of a held range
  void Release(uintptr_t address, size_t rounded);  // frees a held range or a part of one

  // Returns true if `address` is in this device's address range, allocated or not.
  bool Contains(uintptr_t address) const;
  std::optional<Allocation> Find(uintptr_t address) const;
  void* Alias(uintptr_t address) const { return alias_ + (address - base_); }

  // Returns a new descriptor of the file that contains all of the memory, for hostgpuDeviceFile; -1
  // if the system refuses.
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
  int file_ = -1;  // open while mapped, so that NewFile can open it anew
  size_t used_ = 0;
  uint64_t issued_ = 0;
  std::map<size_t, Block> live_;   // live allocations by offset
  std::map<size_t, size_t> gaps_;  // free ranges: offset and size
};

}  // namespace hostgpu
