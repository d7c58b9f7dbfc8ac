#include "shim/host/cudnn/device_memory.h"

#include <atomic>
#include <cstdint>
#include <cstdio>

#include "shim/host/hostgpu.h"

namespace hostgpu {
namespace {

std::atomic<bool> faulted{false};

}  // namespace

void ReportDeviceFault(const char* what) {
  std::fprintf(stderr, "hostgpu: cuDNN stand-in: %s; the device is lost to this process\n", what);
  faulted = true;
}

bool DeviceFaulted() { return faulted; }

void* Resolve(const char* name, const void* address, size_t bytes, size_t alignment) {
  char what[200];
  const size_t there = hostgpuBytesFrom(address);
  if (there < bytes) {
    std::snprintf(what, sizeof what, "illegal address: %s at %p needs %zu bytes, %zu are allocated",
                  name, address, bytes, there);
    ReportDeviceFault(what);
    return nullptr;
  }
  if (reinterpret_cast<uintptr_t>(address) % alignment != 0) {
    std::snprintf(what, sizeof what, "misaligned address: %s at %p is no multiple of %zu", name,
                  address, alignment);
    ReportDeviceFault(what);
    return nullptr;
  }
  return hostgpuHostAlias(address);
}

}  // namespace hostgpu
