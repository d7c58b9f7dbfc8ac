// One convolution with its operands, in one form for all operations. It is a call of the legacy API
// or an execution of a graph plan; an execution has no descriptors. Poolings and batch
// normalisations that are split over ranks (spatial/) have the same form. The functions below call
// the real library's convolutions of the legacy API, and are thread-safe as far as cuDNN is. Plain
// values.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <vector>

#include "convolution/problem.h"
#include "cudnn/functions.h"
#include "cudnn/fused_operands.h"
#include "cudnn/norm_call.h"
#include "cudnn/pooling_call.h"

namespace ucudnn::cudnn {

// x, w and y are the image, filter and output tensors of the convolution in every operation, or the
// gradients of these: backward_data writes x, backward_filter writes w.
struct Descriptors {
  cudnnTensorDescriptor_t x = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnTensorDescriptor_t y = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
};

// The arguments of cudnnConvolutionBiasActivationForward that a plain forward convolution does not
// have. z has the shape of y.
struct BiasActivation {
  const void* alpha2 = nullptr;
  cudnnTensorDescriptor_t z_descriptor = nullptr;
  const void* z = nullptr;
  cudnnTensorDescriptor_t bias_descriptor = nullptr;
  const void* bias = nullptr;
  cudnnActivationDescriptor_t activation = nullptr;
};

struct ConvolutionCall {
  Operation operation = Operation::kForward;
  cudnnHandle_t handle = nullptr;
  Descriptors descriptors;
  const void* alpha = nullptr;
  const void* beta = nullptr;  // not used if `bias` is set
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  int algorithm = 0;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  // Null unless the call is cudnnConvolutionBiasActivationForward.
  const BiasActivation* bias = nullptr;
  // Operands of the operations that a graph plan fuses after its convolution; null: none.
  const FusedPointers* fused = nullptr;
  // Null unless the call is the gradient of a pooling (cudnnPoolingBackward), which has no filter.
  const PoolingOperands* pooling = nullptr;
  // Null unless the call is batch normalisation. `training` is set for the forward call, with its x
  // and y in `x` and `y`; `gradient` is set for the gradient, with its dx in `x` and its dy in `y`.
  const NormTraining* training = nullptr;
  const NormGradient* gradient = nullptr;
};

// Returns the value of `scale`, an alpha or beta in host memory. cuDNN reads it as double for
// double tensors, otherwise as float.
inline double ScaleOf(const void* scale, DataType type) {
  return type == DataType::kDouble ? *static_cast<const double*>(scale)
                                   : *static_cast<const float*>(scale);
}

// Return 1 or 0 in static host memory, as an alpha or beta for tensors of `type`.
inline const void* OneOf(DataType type) {
  static constexpr float kOne = 1;
  static constexpr double kWideOne = 1;
  return type == DataType::kDouble ? static_cast<const void*>(&kWideOne) : &kOne;
}
inline const void* ZeroOf(DataType type) {
  static constexpr float kZero = 0;
  static constexpr double kWideZero = 0;
  return type == DataType::kDouble ? static_cast<const void*>(&kWideZero) : &kZero;
}

// Returns the member of the call that an operation writes.
constexpr void* ConvolutionCall::*OutputOf(Operation operation) {
  switch (operation) {
    case Operation::kForward:
      return &ConvolutionCall::y;
    case Operation::kBackwardData:
      return &ConvolutionCall::x;
    case Operation::kBackwardFilter:
      break;
  }
  return &ConvolutionCall::w;
}

// Calls the real convolution.
cudnnStatus_t Convolve(const Functions& functions, const ConvolutionCall& call);
// Calls the real convolution with these descriptors, algorithm and beta instead of the call's own.
// z gets the descriptor of y if the call has no descriptors. `call` is passed by reference, because
// copying it right after its pointers were written would stall until these writes are done.
cudnnStatus_t Convolve(const Functions& functions, const ConvolutionCall& call,
                       const Descriptors& descriptors, int algorithm, const void* beta);

// Calls the real cudnnGetConvolution*WorkspaceSize.
cudnnStatus_t WorkspaceBytes(const Functions& functions, Operation operation, cudnnHandle_t handle,
                             const Descriptors& descriptors, int algorithm, size_t* bytes);

// One entry of cudnnConvolution*AlgoPerf_t, in the same form for all operations.
struct AlgorithmPerformance {
  int algorithm = 0;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  float time_ms = -1;
  size_t workspace_bytes = 0;
  cudnnDeterminism_t determinism = CUDNN_NON_DETERMINISTIC;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

// Calls the real cudnnGetConvolution*Algorithm_v7, which ranks all algorithms, the best first.
cudnnStatus_t RankAlgorithms(const Functions& functions, Operation operation, cudnnHandle_t handle,
                             const Descriptors& descriptors,
                             std::vector<AlgorithmPerformance>& ranking);

// FromPerformance and its inverse convert entries of cuDNN's Get and Find functions. The types of
// these entries differ between operations only in the type of `algo`.
template <typename Performance>
AlgorithmPerformance FromPerformance(const Performance& performance) {
  return {static_cast<int>(performance.algo),
          performance.status,
          performance.time,
          performance.memory,
          performance.determinism,
          performance.mathType};
}

template <typename Performance>
Performance ToPerformance(const AlgorithmPerformance& from) {
  Performance performance = {};
  performance.algo = static_cast<decltype(performance.algo)>(from.algorithm);
  performance.status = from.status;
  performance.time = from.time_ms;
  performance.memory = from.workspace_bytes;
  performance.determinism = from.determinism;
  performance.mathType = from.math;
  return performance;
}

}  // namespace ucudnn::cudnn
