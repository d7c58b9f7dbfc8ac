// Refuses calls of the C API with a status and a message, which ucudnnGetLastError returns.
#pragma once

#include <cudnn.h>

#include <string_view>

namespace ucudnn {

// Stores `message` for this thread's ucudnnGetLastError, and returns `status`.
cudnnStatus_t Refuse(cudnnStatus_t status, std::string_view message) noexcept;

// Returns inside(), or refuses the call if inside() throws because memory is out.
template <typename Inside>
cudnnStatus_t WithoutExceptions(Inside inside) noexcept {
  try {
    return inside();
  } catch (...) {
    return Refuse(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "out of host memory");
  }
}

}  // namespace ucudnn
