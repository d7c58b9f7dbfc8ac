// Refusals of the C API: a status, and a message for ucudnnGetLastError.
#pragma once

#include <cudnn.h>

#include <string_view>

namespace ucudnn {

// Keeps `message` for this thread, and returns `status`.
cudnnStatus_t Refuse(cudnnStatus_t status, std::string_view message) noexcept;

// Returns inside(), or a refusal if it runs out of memory.
template <typename Inside>
cudnnStatus_t WithoutExceptions(Inside inside) noexcept {
  try {
    return inside();
  } catch (...) {
    return Refuse(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "out of host memory");
  }
}

}  // namespace ucudnn
