// A program's call of batch normalisation with one mean for each channel: training forward, or the
// gradient. Plain values; the functions are thread-safe as far as cuDNN is.
#pragma once

#include <cudnn.h>

#include "convolution/problem.h"
#include "cudnn/functions.h"

namespace ucudnn::cudnn {

// Arguments of cudnnBatchNormalizationForwardTraining, or of its Ex form without an activation.
struct NormTraining {
  cudnnHandle_t handle = nullptr;
  cudnnBatchNormMode_t mode = CUDNN_BATCHNORM_SPATIAL;
  const void* alpha = nullptr;
  const void* beta = nullptr;
  cudnnTensorDescriptor_t x_layout = nullptr;
  const void* x = nullptr;
  cudnnTensorDescriptor_t y_layout = nullptr;
  void* y = nullptr;
  cudnnTensorDescriptor_t parameters = nullptr;  // layout of all pointers below
  const void* scale = nullptr;
  const void* bias = nullptr;
  double factor = 1;  // weight of this call in the running statistics
  void* running_mean = nullptr;
  void* running_variance = nullptr;
  double epsilon = 0;
  void* saved_mean = nullptr;
  void* saved_inverse = nullptr;
};

// Arguments of cudnnBatchNormalizationBackward, or of its Ex form without an activation.
struct NormGradient {
  cudnnHandle_t handle = nullptr;
  cudnnBatchNormMode_t mode = CUDNN_BATCHNORM_SPATIAL;
  const void* data_alpha = nullptr;
  const void* data_beta = nullptr;
  const void* parameter_alpha = nullptr;
  const void* parameter_beta = nullptr;
  cudnnTensorDescriptor_t x_layout = nullptr;
  const void* x = nullptr;
  cudnnTensorDescriptor_t dy_layout = nullptr;
  const void* dy = nullptr;
  cudnnTensorDescriptor_t dx_layout = nullptr;
  void* dx = nullptr;
  cudnnTensorDescriptor_t parameters = nullptr;  // layout of all pointers below
  const void* scale = nullptr;
  void* dscale = nullptr;
  void* dbias = nullptr;
  double epsilon = 0;
  // saved_mean and saved_inverse are both null or both set. If they are null, the library computes
  // mean and inverse from x again.
  const void* saved_mean = nullptr;
  const void* saved_inverse = nullptr;
};

// Further arguments of an Ex call. Without an activation, only the workspace and the reserve space
// are used.
struct NormSpaces {
  cudnnBatchNormOps_t operations = CUDNN_BATCHNORM_OPS_BN;
  cudnnActivationDescriptor_t activation = nullptr;
  cudnnTensorDescriptor_t z_layout = nullptr;  // also the layout of dz
  void* z = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  void* reserve = nullptr;
  size_t reserve_bytes = 0;
};

// Read a call as a problem with one tap for each channel. The problem's x is the x of a forward
// call or the dx of a gradient. Its y is the y of a forward call or the dy of a gradient. Return
// null on success, otherwise the reason (static text) why ucudnn passes such a call on unchanged.
// Allocate nothing.
const char* ReadNorm(const Functions& functions, const NormTraining& call,
                     ConvolutionProblem& problem);
const char* ReadNorm(const Functions& functions, const NormGradient& call,
                     ConvolutionProblem& problem);

// Call the real functions. REQUIRES: the library has them.
cudnnStatus_t Normalize(const Functions& functions, const NormTraining& call);
cudnnStatus_t Normalize(const Functions& functions, const NormGradient& call);
cudnnStatus_t Normalize(const Functions& functions, const NormTraining& call,
                        const NormSpaces& spaces);
cudnnStatus_t Normalize(const Functions& functions, const NormGradient& call,
                        const NormSpaces& spaces);

}  // namespace ucudnn::cudnn
