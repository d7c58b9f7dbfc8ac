#include "shim/host/cudnn/refusal.h"

#include <cstring>

namespace hostgpu {
namespace {

// Points to a string literal, or to a text that exists as long as the thread.
thread_local const char* last_condition = "";

}  // namespace

cudnnStatus_t Refuse(cudnnStatus_t status, const char* condition) {
  last_condition = condition;
  return status;
}

void TakeLastError(char* message, size_t capacity) {
  if (message == nullptr || capacity == 0) return;
  std::strncpy(message, last_condition, capacity - 1);
  message[capacity - 1] = '\0';
  last_condition = "";
}

}  // namespace hostgpu
