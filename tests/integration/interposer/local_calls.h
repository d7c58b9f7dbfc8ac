// Calls of cuDNN that are right on a stripe: each rank makes its own while the process's images are
// split. Their results are whole numbers and halves, which are exact.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace ucudnn::test {

// Tests softmax over channels, forward and backward, on a rank's handle. Waits for the handle's
// stream; an expectation fails if a call or its result is wrong.
void ExpectChannelSoftmax(cudnnHandle_t handle, cudaStream_t stream);
// Tests batch normalisation with statistics of each position alike, by the plain calls.
void ExpectNormOfPositions(cudnnHandle_t handle, cudaStream_t stream);
}  // namespace ucudnn::test
