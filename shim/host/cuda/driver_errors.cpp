// Driver functions that return names and texts of errors.
#include "shim/host/cuda/driver_api.h"
#include "shim/host/cuda/errors.h"

namespace {

CUresult StoreText(CUresult code, const char** out, const char* hostgpu::ErrorText::*member) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const auto* const error = hostgpu::FindError(code, &hostgpu::ErrorText::driver_name);
  *out = error ? error->*member : nullptr;
  return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuGetErrorName(CUresult error, const char** name) {
  return StoreText(error, name, &hostgpu::ErrorText::driver_name);
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  return StoreText(error, text, &hostgpu::ErrorText::text);
}
