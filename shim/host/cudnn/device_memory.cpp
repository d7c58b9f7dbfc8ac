#include "shim/host/cudnn/device_memory.h"

#include <atomic>
#include <cstdint>
#include <cstdio>

#include "shim/host/cudnn/refusal.h"
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

cudnnStatus_t Resolve(const char* name, const void* address, size_t bytes, size_t alignment,
                      Runs runs, void** host) {
  // Refuse stores the message's address, not its text, so the buffer must live as long as the
  // thread.
  thread_local char what[200];
  *host = nullptr;
  cudnnStatus_t wrong = CUDNN_STATUS_SUCCESS;
  const size_t there = hostgpuBytesFrom(address);
  if (there < bytes) {
    std::snprintf(what, sizeof what, "illegal address: %s at %p needs %zu bytes, %zu are allocated",
                  name, address, bytes, there);
    wrong = CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  } else if (reinterpret_cast<uintptr_t>(address) % alignment != 0) {
    std::snprintf(what, sizeof what, "misaligned address: %s at %p is no multiple of %zu", name,
                  address, alignment);
    wrong = CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  }
  if (wrong == CUDNN_STATUS_SUCCESS) {
    *host = hostgpuHostAlias(address);
    return CUDNN_STATUS_SUCCESS;
  }
  if (runs == Runs::kAtReplay) return Refuse(wrong, what);
  ReportDeviceFault(what);
  return Refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART, what);
}

}  // namespace hostgpu
