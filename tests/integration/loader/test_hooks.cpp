// This libucudnn of the tests fills the drop-in as the real one does, and has one hook that cannot
// be mistaken for the real function, with or without a GPU.
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
