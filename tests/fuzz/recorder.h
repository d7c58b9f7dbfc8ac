// Records every convolution that Recording() forwards to the real library's legacy API, so that the
// convolutions that ran can be compared with the answers that callers got. For use by one thread
// only.
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
  size_t need = 0;  // bytes of workspace
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
};

// Returns test::Undivided() with convolutions recorded.
const cudnn::Functions& Recording();

// Returns the calls on `handle` since the last TakeRecorded, and forgets calls on other handles.
std::vector<RealCall> TakeRecorded(cudnnHandle_t handle);

}  // namespace ucudnn::fuzz
