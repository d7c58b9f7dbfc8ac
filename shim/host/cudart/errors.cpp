// Names and texts of runtime errors.
#include "shim/host/cudart/runtime_api.h"

namespace {

struct ErrorText {
  int code;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
#define HOSTGPU_ERROR(code, name, text) {code, #name, text},
#include "shim/host/cudart/errors.inc"
#undef HOSTGPU_ERROR
};

const char* Look(cudaError_t error, const char* ErrorText::*member) {
  for (const ErrorText& entry : kErrors) {
    if (entry.code == error) return entry.*member;
  }
  return "unrecognized error code";
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) { return Look(error, &ErrorText::name); }
const char* cudaGetErrorString(cudaError_t error) { return Look(error, &ErrorText::text); }
