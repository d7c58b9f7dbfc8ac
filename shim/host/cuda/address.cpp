#include "shim/host/cuda/address.h"

#include <iterator>

namespace hostgpu {

std::optional<Place> Locate(uintptr_t address) {
  State& state = TheState();
  for (Context& context : state.contexts) {
    if (!context.memory.Contains(address)) continue;
    const std::optional<Allocation> allocation = context.memory.Find(address);
    if (!allocation) return std::nullopt;
    return Place{Memory::kDevice, context.memory.Alias(address), &context, *allocation};
  }
  Place place{Memory::kPageable, reinterpret_cast<void*>(address), nullptr, {}};
  std::lock_guard lock(state.mutex);
  const auto after = state.host.upper_bound(address);
  if (after == state.host.begin()) return place;
  const auto& [start, host] = *std::prev(after);
  if (address - start >= host.bytes) return place;
  place.memory = Memory::kPinned;
  place.context = host.context;
  place.allocation = {start, host.bytes};
  return place;
}

std::optional<Place> Locate(uintptr_t address, size_t bytes) {
  std::optional<Place> place = Locate(address);
  if (place && place->context && place->allocation.BytesFrom(address) < bytes) return std::nullopt;
  return place;
}

}  // namespace hostgpu

void* hostgpuHostAlias(const void* device_address) {
  const auto place = hostgpu::Locate(reinterpret_cast<uintptr_t>(device_address));
  return place && place->context ? place->host : nullptr;
}

size_t hostgpuBytesFrom(const void* device_address) {
  const auto address = reinterpret_cast<uintptr_t>(device_address);
  const auto place = hostgpu::Locate(address);
  return place && place->context ? place->allocation.BytesFrom(address) : 0;
}

int hostgpuDeviceFile(int device) {
  hostgpu::Context* const context = hostgpu::FindDevice(device);
  return context ? context->memory.NewFile() : -1;
}

size_t hostgpuDeviceOffset(int device, const void* device_address) {
  const auto address = reinterpret_cast<uintptr_t>(device_address);
  const auto place = hostgpu::Locate(address);
  if (!place || place->memory != hostgpu::Memory::kDevice || place->context->device != device) {
    return SIZE_MAX;
  }
  return place->context->memory.OffsetOf(address);
}
