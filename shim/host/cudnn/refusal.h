// Refusals of the stand-in: the status, and the failed condition for cudnnGetLastErrorString. One
// message a thread, as in the real library.
#pragma once

#include "shim/host/cudnn/api.h"

namespace hostgpu {

// Keeps `condition`, which is not copied, as this thread's last error and returns `status`.
cudnnStatus_t Refuse(cudnnStatus_t status, const char* condition);

// Writes this thread's last error to `message` and forgets it.
void TakeLastError(char* message, size_t capacity);

template <class... Pointers>
bool AnyNull(const Pointers*... pointers) {
  return ((pointers == nullptr) || ...);
}

}  // namespace hostgpu

#define HOSTGPU_REFUSE_IF(condition, status)                       \
  do {                                                             \
    if (condition) return ::hostgpu::Refuse((status), #condition); \
  } while (false)
