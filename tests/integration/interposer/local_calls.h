// Tests cuDNN calls that compute each position separately. While images are split, each rank makes
// these calls on its own stripe, and ucudnn does not split them. Results are integers and halves,
// which are exact.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace ucudnn::test {

// Tests softmax over channels, forward and backward, on a rank's handle. Waits for the handle's
// stream. Reports a GoogleTest failure if a call or its result is wrong.
void ExpectChannelSoftmax(cudnnHandle_t handle, cudaStream_t stream);
// Like ExpectChannelSoftmax(), for batch normalisation with statistics for each position
// (PER_ACTIVATION).
void ExpectNormOfPositions(cudnnHandle_t handle, cudaStream_t stream);
}  // namespace ucudnn::test
