// What a finalized operation graph computes, in the engines' terms: at most one convolution, then
// pointwise operations on its result; or pointwise operations alone; or sums over channels. Where a
// graph has something before the convolution, or more behind it, one such computation follows the
// other, and virtual tensors between them lie in the workspace.
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

// A sum and a sum of squares of every channel; or what batch normalisation's backward pass takes
// from all of them. The program's operands are the operation's inputs, then its outputs.
enum class ChannelSums { kStatistics, kNormalizationGradients };

// A virtual tensor that one stage writes and others read.
struct StagedTensor {
  int64_t unique_id;
  size_t offset;  // bytes into the workspace
};

struct Computation {
  std::optional<ConvolutionPart> convolution;
  PointwiseProgram program;  // no steps: the convolution, or the sums, are all
  std::optional<ChannelSums> sums;
  std::vector<GraphOperand> operands;
  // Unless empty, the computation is these one after the other, and of the above has operands only.
  std::vector<Computation> stages;
  std::vector<StagedTensor> staged;
  size_t staged_bytes = 0;
};

// `operations` are in an order in which they can run. NOT_SUPPORTED, or a form of it, where no
// engine computes them: other operations, several convolutions, shapes that do not follow the
// convolution's, types outside fp32, fp16, bf16, fp64, int8 and int32, filters that are not packed.
cudnnStatus_t Lower(const std::vector<GraphOperation>& operations, Computation* computation);

// As Lower, without stages: not for operations before a convolution, nor for concatenation.
cudnnStatus_t LowerFused(const std::vector<GraphOperation>& operations, Computation* computation);

// Whether a graph has at most one convolution, and what no fused computation has.
bool NeedsStages(const std::vector<GraphOperation>& operations);
cudnnStatus_t LowerInStages(const std::vector<GraphOperation>& operations,
                            Computation* computation);

// Of a computation with sums. `addresses[i]` is where the first element of the program's operand i
// is.
bool RunChannelSums(const Computation& computation, const std::vector<void*>& addresses);

// A convolution operation as the engines describe it. `problem` has the strides of x and y.
cudnnStatus_t DescribeConvolution(const ConvolutionOperation& operation, Problem* problem);

}  // namespace hostgpu
