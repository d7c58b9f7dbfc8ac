// Finds out what kind of memory an address refers to: device memory, page-locked host memory, or
// the application's own pageable memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "shim/host/cuda/context.h"

namespace hostgpu {

enum class Memory { kPageable, kPinned, kDevice };

struct Place {
  Memory memory = Memory::kPageable;
  void* host = nullptr;        // the address by which the stand-in reads and writes the memory
  Context* context = nullptr;  // null for pageable memory
  Allocation allocation;  // the allocation that contains the address; empty for pageable memory
};

// Returns none if `address` is in a device's address range but in no live allocation.
std::optional<Place> Locate(uintptr_t address);
// Locates the memory from `address` to `address` + `bytes`. Returns none also if that memory
// extends beyond the allocation.
std::optional<Place> Locate(uintptr_t address, size_t bytes);

}  // namespace hostgpu
