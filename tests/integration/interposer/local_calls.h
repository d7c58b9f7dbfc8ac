// Calls of cuDNN that are right on a stripe: each rank's own, while the process's images are split.
// What they give is whole numbers and halves, which is exact.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace ucudnn::test {

// Softmax over channels, forward and backward, on a handle that is a rank's. Waits for the handle's
// stream; an expectation fails where a call or its result is wrong.
void ExpectChannelSoftmax(cudnnHandle_t handle, cudaStream_t stream);
// The same of batch normalisation with statistics of each position, by the plain calls.
void ExpectNormOfPositions(cudnnHandle_t handle, cudaStream_t stream);
}  // namespace ucudnn::test
