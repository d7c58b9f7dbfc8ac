#include "convolution/partial_sums.h"

namespace ucudnn {
namespace {

size_t FilterElements(const ConvolutionProblem& problem) {
  return static_cast<size_t>(problem.k) * (problem.c / problem.groups) * problem.w[0] *
         problem.w[1] * problem.w[2];
}

}  // namespace

size_t InWorkspace(size_t bytes) {
  return (bytes + kPartialSumAlignment - 1) / kPartialSumAlignment * kPartialSumAlignment;
}

bool IsPartial(const ConvolutionProblem& problem, const MicroConfiguration& micro) {
  return IsPartial(problem, micro.micro_batch) ||
         (micro.tile.spatial != Spatial{0, 0, 0} && SumsPartials(problem));
}

bool SumsPartials(const ConvolutionProblem& problem) {
  return problem.operation == Operation::kBackwardFilter && ElementBytes(problem.type) == 2;
}

size_t AccumulatorBytes(const ConvolutionProblem& problem) {
  return InWorkspace(FilterElements(problem) * sizeof(float));
}

size_t PartialSumBytes(const ConvolutionProblem& problem) {
  return AccumulatorBytes(problem) +
         InWorkspace(FilterElements(problem) * ElementBytes(problem.type));
}

MicroConfiguration AsPartial(const ConvolutionProblem& problem, MicroConfiguration measured,
                             double sum_ms) {
  measured.workspace_bytes += PartialSumBytes(problem);
  measured.time_ms += sum_ms;
  return measured;
}

size_t EngineBytes(const ConvolutionProblem& problem, const MicroConfiguration& micro) {
  if (!IsPartial(problem, micro)) return micro.workspace_bytes;
  const size_t sum_bytes = PartialSumBytes(problem);
  return micro.workspace_bytes < sum_bytes ? 0 : micro.workspace_bytes - sum_bytes;
}

}  // namespace ucudnn
