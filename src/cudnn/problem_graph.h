// One convolution of the legacy API as an operation graph. Engines of this graph can run the
// convolution's calls instead of the legacy algorithms. Thread-compatible.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cudnn/backend.h"
#include "cudnn/graph_engines.h"

namespace ucudnn::cudnn {

// Returns whether an engine with these notes may run a legacy call of `problem`. The math type of
// `problem` says which arithmetic the caller allows. The engine must not sum in lower precision. In
// fp32 an engine on tensor cores converts to TF32. Under the default math type such an engine is
// refused, because only cuDNN's legacy functions know whether that type allows TF32. An engine that
// is compiled at run time for every plan is refused, because every process would compile it for
// every size.
bool MayServe(const EngineNotes& notes, const ConvolutionProblem& problem);

class ProblemGraph {
 public:
  // Returns a graph with alpha = 1 and beta = 0. The caller owns what `device` refers to and keeps
  // it alive.
  static Result<ProblemGraph> Create(const Functions& functions, const PlanDevice& device,
                                     const ConvolutionProblem& problem);

  // Returns the templates of at most `most` of the heuristics' choices that MayServe accepts, the
  // best first. The first template is built in any case, each further one only if `in_time` returns
  // true.
  std::vector<GraphTemplate> Heuristics(
      size_t most, const std::function<bool()>& in_time = [] { return true; }) const;
  // Returns the template of `engine`, an engine of the graph API without fused operations. Fails if
  // MayServe refuses the engine.
  Result<GraphTemplate> Named(const EngineId& engine) const;

 private:
  ProblemGraph(const Functions& functions, const PlanDevice& device,
               const ConvolutionProblem& problem)
      : functions_(&functions), device_(device), problem_(problem) {}

  Result<GraphTemplate> TemplateOf(cudnnBackendDescriptor_t configuration) const;

  const Functions* functions_;
  PlanDevice device_;
  ConvolutionProblem problem_;
  BackendDescriptor graph_;
};

}  // namespace ucudnn::cudnn
