// A convolution of ours beside the caller's: what a halo contributes to boundary rows, or boundary
// rows computed anew. Its tensors are packed, so that every engine of cuDNN's legacy API takes
// them. Immutable once made; a call allocates nothing. Thread-safe as far as cuDNN is.
#pragma once

#include <memory>

#include "base/status.h"
#include "convolution/problem.h"
#include "cudnn/convolution_call.h"
#include "cudnn/descriptors.h"

namespace ucudnn::spatial {

// What the caller's own call may use.
struct EngineDemand {
  bool deterministic = false;
  size_t most_workspace_bytes = 0;
  // cudnnConvolutionBiasActivationForward: IMPLICIT_PRECOMP_GEMM serves it with any activation, and
  // alone without one.
  bool is_fused = false;
  bool is_identity = false;
};

class SmallConvolution {
 public:
  // `problem` has packed tensors. The engine is the first of the library's own ranking that sums
  // directly, in the problem's math type, within the demand. An error says that none serves.
  static Result<std::unique_ptr<SmallConvolution>> Make(const cudnn::Functions& functions,
                                                        cudnnHandle_t handle,
                                                        const ConvolutionProblem& problem,
                                                        const EngineDemand& demand);

  const ConvolutionProblem& problem() const { return problem_; }
  size_t workspace_bytes() const { return workspace_bytes_; }
  const cudnn::Descriptors& descriptors() const { return descriptors_.get(); }

  // Enqueues on the stream of `call.handle`. Of `call` it takes the handle, scales, pointers,
  // workspace and what is fused; z has the shape of y.
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call) const;

 private:
  SmallConvolution(const cudnn::Functions& functions, const ConvolutionProblem& problem)
      : functions_(functions), problem_(problem), descriptors_(functions) {}
  // Takes the algorithm where it fits the demand.
  bool Takes(cudnnHandle_t handle, const cudnn::AlgorithmPerformance& entry,
             const EngineDemand& demand);
  Status ChooseEngine(cudnnHandle_t handle, const EngineDemand& demand);

  const cudnn::Functions& functions_;
  const ConvolutionProblem problem_;
  cudnn::OwnedDescriptors descriptors_;
  int algorithm_ = 0;
  size_t workspace_bytes_ = 0;
};

}  // namespace ucudnn::spatial
