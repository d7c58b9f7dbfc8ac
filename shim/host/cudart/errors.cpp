// Runtime functions that return names and texts of errors.
#include "shim/host/cuda/errors.h"

#include "shim/host/cudart/runtime_api.h"

namespace {

const char* Text(cudaError_t code, const char* hostgpu::ErrorText::*member) {
  const auto* const error = hostgpu::FindError(code, &hostgpu::ErrorText::runtime_name);
  return error ? error->*member : "unrecognized error code";
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  return Text(error, &hostgpu::ErrorText::runtime_name);
}
const char* cudaGetErrorString(cudaError_t error) { return Text(error, &hostgpu::ErrorText::text); }
