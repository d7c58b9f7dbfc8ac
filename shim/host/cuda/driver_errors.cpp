// Names and texts of driver errors.
#include "shim/host/cuda/driver_api.h"

namespace {

struct ErrorText {
  int code;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
#define HOSTGPU_ERROR(code, name, text) {code, #name, text},
#include "shim/host/cuda/errors.inc"
#undef HOSTGPU_ERROR
};

CUresult Look(CUresult error, const char** out, const char* ErrorText::*member) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  for (const ErrorText& entry : kErrors) {
    if (entry.code != error) continue;
    *out = entry.*member;
    return CUDA_SUCCESS;
  }
  *out = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuGetErrorName(CUresult error, const char** name) {
  return Look(error, name, &ErrorText::name);
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  return Look(error, text, &ErrorText::text);
}
