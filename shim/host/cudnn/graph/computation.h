// The computation of a finalized operation graph, in the terms of the engines. A computation is one
// of: a convolution, possibly with pointwise operations on its result; only pointwise operations;
// or one operation's sums over channels.
//
// Some graphs become several such computations, called stages, which run one after the other:
// graphs with operations before the convolution, with a concatenation, or with sums in addition to
// other operations. Each operation is a stage; a concatenation has a stage for each input that it
// copies. All virtual tensors of such a graph are in the workspace.
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
  std::array<int64_t, 3> unique_ids;  // unique ids of x, w and y
  std::array<int64_t, 3> alignments;  // declared alignments of x, w and y, in bytes
  // True if the application does not get the result. Then the result is operand `result` of the
  // program. It is dense, has the type of x, and exists only while pointwise operations read it.
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

// kStatistics: a sum and a sum of squares for each channel. kNormalizationGradients: the gradients
// of batch normalisation's scale and bias, and the coefficients of dx. The program's operands are
// the operation's inputs and then its outputs.
enum class ChannelSums { kStatistics, kNormalizationGradients };

// A virtual tensor that one stage writes and later stages read.
struct StagedTensor {
  int64_t unique_id;
  size_t offset;  // offset in the workspace, in bytes
};

struct Computation {
  std::optional<ConvolutionPart> convolution;
  PointwiseProgram program;  // has no steps if there is only the convolution or only the sums
  std::optional<ChannelSums> sums;
  std::vector<GraphOperand> operands;
  // If not empty, the computation consists of these stages, which run one after the other. Then
  // only `operands` of the members above is used.
  std::vector<Computation> stages;
  std::vector<StagedTensor> staged;
  size_t staged_bytes = 0;
};

// Converts `operations`, which are in an order in which they can run, to a computation. Returns
// NOT_SUPPORTED, or a specific form of it, if no engine can compute them. Examples are kinds of
// operations that the engines lack, several convolutions, pointwise shapes that do not match the
// convolution's, types other than fp32, fp16, bf16, fp64, int8 and int32, and filters that are not
// packed.
cudnnStatus_t Lower(const std::vector<GraphOperation>& operations, Computation* computation);

// Does what Lower does, but without stages: it supports neither operations before a convolution nor
// concatenation.
cudnnStatus_t LowerFused(const std::vector<GraphOperation>& operations, Computation* computation);

// Returns true if a graph has at most one convolution and needs stages.
bool NeedsStages(const std::vector<GraphOperation>& operations);
cudnnStatus_t LowerInStages(const std::vector<GraphOperation>& operations,
                            Computation* computation);

// Runs a computation with sums over channels. addresses[i] is the address of the first element of
// the program's operand i. Returns false if host memory runs out.
bool RunChannelSums(const Computation& computation, const std::vector<void*>& addresses);

// Describes a convolution operation for the engines. `problem` gets the strides of x and y.
cudnnStatus_t DescribeConvolution(const ConvolutionOperation& operation, Problem* problem);

}  // namespace hostgpu
