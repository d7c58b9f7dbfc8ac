// The computation of a finalized operation graph, in the engines' terms: at most one convolution,
// then pointwise operations on its result; or pointwise operations alone; or sums over channels. If
// a graph has operations before the convolution, or others behind it, several such computations
// follow each other, and virtual tensors between them lie in the workspace.
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
  // The result never reaches the application: it is kept, dense and in the type of x, only while
  // the pointwise operations run on it. `result` is its operand there.
  bool is_virtual;
  int result;
};

// A tensor of the application that the computation uses.
struct GraphOperand {
  const char* name;
  int64_t unique_id;
  int64_t alignment;
  size_t bytes;
  bool by_value;
};

// A sum and a sum of squares for every channel; or the quantities that batch normalisation's
// backward pass derives from them. The program's operands are the operation's inputs, then its
// outputs.
enum class ChannelSums { kStatistics, kNormalizationGradients };

// A virtual tensor that one stage writes and others read.
struct StagedTensor {
  int64_t unique_id;
  size_t offset;  // bytes into the workspace
};

struct Computation {
  std::optional<ConvolutionPart> convolution;
  PointwiseProgram program;  // no steps: there is only the convolution, or only the sums
  std::optional<ChannelSums> sums;
  std::vector<GraphOperand> operands;
  // If not empty, the computation consists of these stages one after the other, and of the members
  // above only the operands are used.
  std::vector<Computation> stages;
  std::vector<StagedTensor> staged;
  size_t staged_bytes = 0;
};

// Lowers `operations`, which are in an order in which they can run. NOT_SUPPORTED, or a form of it,
// if no engine computes them: other operations, several convolutions, shapes that do not follow the
// convolution's, types outside fp32, fp16, bf16, fp64, int8 and int32, filters that are not packed.
cudnnStatus_t Lower(const std::vector<GraphOperation>& operations, Computation* computation);

// Lower without stages: not for operations before a convolution, nor for concatenation.
cudnnStatus_t LowerFused(const std::vector<GraphOperation>& operations, Computation* computation);

// Returns whether a graph has at most one convolution, and something that no fused computation has.
bool NeedsStages(const std::vector<GraphOperation>& operations);
cudnnStatus_t LowerInStages(const std::vector<GraphOperation>& operations,
                            Computation* computation);

// Runs a computation with sums. addresses[i] is the address of the first element of the program's
// operand i.
bool RunChannelSums(const Computation& computation, const std::vector<void*>& addresses);

// A convolution operation as the engines describe it. `problem` has the strides of x and y.
cudnnStatus_t DescribeConvolution(const ConvolutionOperation& operation, Problem* problem);

}  // namespace hostgpu
