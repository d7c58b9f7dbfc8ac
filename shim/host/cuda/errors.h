// The errors of the driver and the runtime API, which have the same codes. Pure.
#pragma once

namespace hostgpu {

struct ErrorText {
  int code;
  const char* driver_name;   // empty if the driver has no such code
  const char* runtime_name;  // empty if the runtime has no such code
  const char* text;
};

constexpr ErrorText kErrors[] = {
#define HOSTGPU_ERROR(...) {__VA_ARGS__},
#include "shim/host/cuda/errors.inc"
#undef HOSTGPU_ERROR
};

// Returns the error with this code; null if there is none in the API that `name` selects
// (&ErrorText::driver_name or &ErrorText::runtime_name).
constexpr const ErrorText* FindError(int code, const char* ErrorText::*name) {
  for (const ErrorText& error : kErrors) {
    if (error.code == code && *(error.*name) != '\0') return &error;
  }
  return nullptr;
}

}  // namespace hostgpu
