#include "tests/support/problem.h"

namespace ucudnn::test {

ConvolutionProblem ProblemWith(const SmallProblem& said) {
  ConvolutionProblem problem;
  problem.operation = said.operation;
  problem.spatial_rank = said.spatial_rank;
  problem.n = said.n;
  problem.c = said.c;
  problem.k = said.k;
  problem.groups = said.groups;
  problem.x = said.x;
  problem.w = said.w;
  problem.pad = said.pad;
  problem.stride = said.stride;
  problem.dilation = said.dilation;
  problem.type = said.type;
  problem.compute = said.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  problem.layout = said.layout;
  problem.alignment = said.alignment;
  SetPackedStrides(problem);
  return problem;
}

}  // namespace ucudnn::test
