// The real library with every convolution written down: what really ran, against what callers
// were told. Used by one thread.
#pragma once

#include <vector>

#include "tests/integration/interposer/libraries.h"

namespace ucudnn::fuzz {

struct RealCall {
  cudnnHandle_t handle = nullptr;
  int algorithm = 0;
  int images = 0;
  const void* x = nullptr;
  const void* y = nullptr;
  size_t need = 0;  // workspace
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
};

// test::Undivided(), recording.
const cudnn::Functions& Recording();

// What was called on `handle` since the last call; calls on other handles are forgotten.
std::vector<RealCall> TakeRecorded(cudnnHandle_t handle);

}  // namespace ucudnn::fuzz
