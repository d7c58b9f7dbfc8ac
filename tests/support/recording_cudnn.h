// A table of cuDNN functions for tests. Descriptors work as in cuDNN (tests/support/null_cudnn).
// Convolutions compute nothing, record their calls, and fail on demand. Each thread has its own
// Recording.
#pragma once

#include <vector>

#include "convolution/problem.h"
#include "cudnn/functions.h"

namespace ucudnn::test {

struct RecordedCall {
  Operation operation = Operation::kForward;
  int algorithm = 0;
  int images = 0;  // in x and in y; -1 if x and y differ
  const void* x = nullptr;
  const void* w = nullptr;
  const void* y = nullptr;
  const void* z = nullptr;  // bias-activation only
  const void* workspace = nullptr;
  size_t workspace_bytes = 0;
  double alpha = 0;
  double beta = 0;
};

// A call of cudnnOpTensor(ADD) with the same tensor as both inputs: output = alpha input + beta
// output.
struct RecordedSum {
  int after = 0;  // number of convolution calls before the sum
  const void* input = nullptr;
  void* output = nullptr;
  cudnnDataType_t from = CUDNN_DATA_FLOAT, to = CUDNN_DATA_FLOAT;
  int elements = 0;
  double alpha = 0;
  double beta = 0;
};

struct Recording {
  std::vector<RecordedCall> calls;
  std::vector<RecordedSum> sums;
  int fail_at = -1;      // index of the call that fails
  int fail_sum_at = -1;  // index of the sum that fails
  cudnnStatus_t error = CUDNN_STATUS_EXECUTION_FAILED;
};

Recording& ThisRecording();

// Returns the unchanged functions of the null library.
cudnn::Functions NullFunctions();
// Returns the null library's functions, with convolutions and sums that record their calls.
cudnn::Functions RecordingFunctions();

}  // namespace ucudnn::test
