// Refuses calls of the stand-in: returns the status, and stores the failed condition for
// cudnnGetLastErrorString. There is one message per thread, as in the real library.
#pragma once

#include "shim/host/cudnn/api.h"

namespace hostgpu {

// Stores `condition` as this thread's last error and returns `status`. The text is not copied, so
// it must stay valid.
cudnnStatus_t Refuse(cudnnStatus_t status, const char* condition);

// Copies this thread's last error to `message` and clears it.
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
