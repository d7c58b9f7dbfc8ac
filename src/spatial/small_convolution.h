// A small convolution that ucudnn runs in addition to the caller's own call: it computes the
// contribution of received rows to the results at a cut, or computes these results again. Its
// tensors are packed, so every engine of cuDNN's legacy API accepts them. Immutable once made;
// ucudnn allocates nothing in a call. Thread-safe if the calls use different handles.
#pragma once

#include <memory>

#include "base/status.h"
#include "convolution/problem.h"
#include "cudnn/convolution_call.h"
#include "cudnn/graph_engines.h"

namespace ucudnn::spatial {

// The properties that the engine of a small convolution must have.
struct EngineDemand {
  bool deterministic = false;
  size_t most_workspace_bytes = 0;
  size_t preferred_workspace_bytes = 0;  // engines that need no more than this are preferred
  // True if the call is cudnnConvolutionBiasActivationForward. That call supports
  // IMPLICIT_PRECOMP_GEMM with any activation, and with the identity (`is_identity`) no other
  // algorithm.
  bool is_fused = false;
  bool is_identity = false;
  // The execution plan that is built again for other extents, with the operations fused behind its
  // convolution; null: there is no such plan.
  const cudnn::GraphTemplate* fused_plan = nullptr;
};

class SmallConvolution {
 public:
  // `problem` has packed tensors. For the legacy API, the engine is an algorithm that computes sums
  // directly, without a transform such as FFT or Winograd, and that meets `demand`. For a fused
  // plan, the engine is the plan's own, or one that is at least as exact. Fails if there is no such
  // engine.
  static Result<std::unique_ptr<SmallConvolution>> Make(const cudnn::Functions& functions,
                                                        cudnnHandle_t handle,
                                                        const ConvolutionProblem& problem,
                                                        const EngineDemand& demand);
  virtual ~SmallConvolution() = default;

  const ConvolutionProblem& problem() const { return problem_; }
  size_t workspace_bytes() const { return workspace_bytes_; }

  // Enqueues the convolution on the stream of `call.handle`, with the handle, scales, pointers,
  // workspace and fused operands of `call`. z has the shape of y.
  virtual cudnnStatus_t Run(const cudnn::ConvolutionCall& call) const = 0;

 protected:
  explicit SmallConvolution(const ConvolutionProblem& problem) : problem_(problem) {}

  const ConvolutionProblem problem_;
  size_t workspace_bytes_ = 0;
};

}  // namespace ucudnn::spatial
