// The operation graph of one convolution of the legacy API: what the graph API's engines are asked
// to serve in place of the legacy algorithms. Thread-compatible.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cudnn/backend.h"
#include "cudnn/graph_engines.h"

namespace ucudnn::cudnn {

// Whether an engine with these notes may serve a legacy call of `problem`, whose math type says
// what arithmetic the caller allows. Sums are never reduced in lower precision. In fp32 tensor
// cores convert to TF32: under the default math type only the legacy engines know whether the
// device may. An engine that is compiled for every plan would be so in every process, at every
// size.
bool MayServe(const EngineNotes& notes, const ConvolutionProblem& problem);

class ProblemGraph {
 public:
  // With alpha = 1 and beta = 0. `device` outlives this object.
  static Result<ProblemGraph> Create(const Functions& functions, const PlanDevice& device,
                                     const ConvolutionProblem& problem);

  // The first `most` of the heuristics' choices that may serve the problem, best first: behind the
  // first as many as were built while `in_time` said so.
  std::vector<GraphTemplate> Heuristics(
      size_t most, const std::function<bool()>& in_time = [] { return true; }) const;
  // The engine that "graph:38[k2=1]" names; an error when it may not serve the problem.
  Result<GraphTemplate> Named(const std::string& engine) const;

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
