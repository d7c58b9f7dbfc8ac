// The errors of both APIs, whose codes are the same numbers. Pure.
#pragma once

namespace hostgpu {

struct ErrorText {
  int code;
  const char* driver_name;   // empty where the driver has none of this code
  const char* runtime_name;  // empty where the runtime has none
  const char* text;
};

constexpr ErrorText kErrors[] = {
#define HOSTGPU_ERROR(...) {__VA_ARGS__},
#include "shim/host/cuda/errors.inc"
#undef HOSTGPU_ERROR
};

// The error that has a name in the API that `name` is of; null for any other code.
constexpr const ErrorText* FindError(int code, const char* ErrorText::*name) {
  for (const ErrorText& error : kErrors) {
    if (error.code == code && *(error.*name) != '\0') return &error;
  }
  return nullptr;
}

}  // namespace hostgpu
