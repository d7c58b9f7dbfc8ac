// The tests' libucudnn: the real one's filling of the drop-in, with one hook that cannot be
// mistaken for the real function, GPU or not.
#include <cudnn.h>

#include <cstdint>

#include "api/hooks.h"

namespace ucudnn {
namespace {

cudnnStatus_t Create(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(uintptr_t{0x5eed});
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

std::span<const Hook> Hooks() {
  static const Hook kHooks[] = {{"cudnnCreate", reinterpret_cast<void*>(Create)}};
  return kHooks;
}

}  // namespace ucudnn
