// What a finalized operation graph computes, in the engines' terms: at most one convolution, then
// pointwise operations on its result; or pointwise operations alone.
#pragma once

#include <optional>
#include <vector>

#include "shim/host/cudnn/graph/operation_graph.h"
#include "shim/host/cudnn/graph/pointwise_program.h"
#include "shim/host/cudnn/problem.h"

namespace hostgpu {

struct ConvolutionPart {
  Problem problem;
  double alpha, beta;
  std::array<int64_t, 3> unique_ids;  // of x, w and y
  std::array<int64_t, 3> alignments;  // bytes, as declared
  // The result never reaches the application: it is kept, dense and in the type of x, only as long
  // as it takes to run the pointwise operations on it. `result` is its operand there.
  bool is_virtual;
  int result;
};

// A tensor of the application's that the computation touches.
struct GraphOperand {
  const char* name;
  int64_t unique_id;
  int64_t alignment;
  size_t bytes;
  bool by_value;
};

struct Computation {
  std::optional<ConvolutionPart> convolution;
  PointwiseProgram program;  // no steps: the convolution is all
  std::vector<GraphOperand> operands;
};

// `operations` are in an order in which they can run. NOT_SUPPORTED, or a form of it, where no
// engine computes them: other operations, several convolutions, operations before one, shapes that
// do not follow the convolution's, types outside fp32, fp16, bf16 and fp64, filters that are not
// packed.
cudnnStatus_t Lower(const std::vector<GraphOperation>& operations, Computation* computation);

// A convolution operation as the engines describe it. `problem` has the strides of x and y.
cudnnStatus_t DescribeConvolution(const ConvolutionOperation& operation, Problem* problem);

}  // namespace hostgpu
