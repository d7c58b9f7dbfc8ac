#include "api/refusal.h"

#include <algorithm>

#include "ucudnn/ucudnn.h"

namespace ucudnn {
namespace {

// The size is fixed, so that storing a message needs no memory, which may have run out.
thread_local char last_message[512] = "";

}  // namespace

cudnnStatus_t Refuse(cudnnStatus_t status, std::string_view message) noexcept {
  const size_t length = std::min(message.size(), sizeof last_message - 1);
  std::copy_n(message.data(), length, last_message);
  last_message[length] = '\0';
  return status;
}

}  // namespace ucudnn

extern "C" const char* ucudnnGetLastError() { return ucudnn::last_message; }
