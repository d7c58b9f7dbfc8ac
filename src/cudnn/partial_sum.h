// Sums partial filter gradients (convolution/partial_sums.h) by cudnnOpTensor. NVIDIA documents
// this function for fp16 and bf16 inputs with an fp32 output and for the reverse, computed in fp32.
// Immutable, and thread-safe as far as cuDNN is. A call allocates nothing and enqueues one CUDA
// kernel.
#pragma once

#include <memory>

#include "base/status.h"
#include "convolution/problem.h"
#include "cudnn/functions.h"

namespace ucudnn::cudnn {

class PartialSum {
 public:
  // Fails if the library lacks the functions of UCUDNN_CUDNN_OP_TENSOR_FUNCTIONS.
  static Result<std::unique_ptr<PartialSum>> Create(const Functions& functions,
                                                    const ConvolutionProblem& problem);
  PartialSum(const PartialSum&) = delete;
  PartialSum& operator=(const PartialSum&) = delete;
  ~PartialSum();

  // Return addresses in `workspace`. The workspace begins with the sum and the partial, which need
  // PartialSumBytes together. A piece writes its gradient to Partial(), with alpha = 1 and beta =
  // 0; its engine may use the memory from EngineWorkspace() on.
  void* Partial(void* workspace) const;
  void* EngineWorkspace(void* workspace) const;

  // Adds the partial to the sum, or, if `first`, sets the sum to the partial.
  cudnnStatus_t Add(cudnnHandle_t handle, void* workspace, bool first) const;
  // Computes output = alpha * sum + beta * output in the partials' type. `alpha` and `beta` point
  // to floats in host memory.
  cudnnStatus_t Store(cudnnHandle_t handle, void* workspace, const void* alpha, const void* beta,
                      void* output) const;

 private:
  PartialSum(const Functions& functions, const ConvolutionProblem& problem);
  Status Describe(const ConvolutionProblem& problem);

  const Functions& functions_;
  const size_t accumulator_bytes_, bytes_;
  cudnnOpTensorDescriptor_t add_ = nullptr;
  cudnnTensorDescriptor_t partial_ = nullptr, sum_ = nullptr;
};

}  // namespace ucudnn::cudnn
