// The kind of memory behind an address: device memory, page-locked host memory or the application's
// own pageable memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "shim/host/cuda/context.h"

namespace hostgpu {

enum class Memory { kPageable, kPinned, kDevice };

struct Place {
  Memory memory = Memory::kPageable;
  void* host = nullptr;        // the address at which the stand-in reads and writes it
  Context* context = nullptr;  // null for pageable memory
  Allocation allocation;       // the allocation around it; empty for pageable memory
};

// Returns none if `address` is in a device's range but in no live allocation.
std::optional<Place> Locate(uintptr_t address);
// Locates [address, address + bytes): also empty if it runs past its allocation.
std::optional<Place> Locate(uintptr_t address, size_t bytes);

}  // namespace hostgpu
