// Reads the JSON of a finalized execution plan of the graph API
// (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION). The result is the convolution that the plan
// computes, or the reason why ucudnn does not divide the plan. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "convolution/engine_id.h"
#include "convolution/problem.h"
#include "cudnn/fused_operands.h"

namespace ucudnn::cudnn {

// One convolution. In forward and backward_data, pointwise operations may be fused after it.
struct FusedConvolution {
  // x, w and y are the image, filter and final output, or their gradients. `math` is kDefault,
  // because the engine's name determines its arithmetic. `alignment` is the largest alignment that
  // the plan declares for a batched tensor.
  ConvolutionProblem problem;
  // The plan's engine. Its knobs are in ascending order of their numbers; knobs at their default
  // are left out; its text ends in FusedOperations::text.
  EngineId engine;
  double alpha = 1;
  double beta = 0;
  int64_t x_uid = 0, w_uid = 0, y_uid = 0;
  std::vector<FusedOperand> operands;  // tensors that the fused operations read
  int64_t w_alignment = 1;             // alignment in bytes that the plan declares for w
  // True if the library compiled the plan's CUDA kernels for this batch, so that another batch
  // needs other CUDA kernels.
  bool compiled = false;
  // Bit i is set if the leading extent of tensor i of the JSON is the mini-batch. Virtual tensors
  // count, too.
  uint64_t batched = 0;
  int tensors = 0;

  bool operator==(const FusedConvolution&) const = default;
};

// Searches the text of `json`, without parsing it, for reasons why ReadFusedConvolution refuses a
// plan. Returns the reason (static text), or null if the text has to be parsed.
const char* UnfamiliarAtAGlance(std::string_view json);

// Returns whether `json`, in any schema, contains a convolution.
bool HoldsConvolution(std::string_view json);

// Reads a plan. Every member, name and value must be known; the error says which one is not. `like`
// is the same plan at another batch (null: none). It is needed for a plan of a single image, where
// a tensor with elements for each image looks like a tensor that all images share. JSON states no
// math type, because only the legacy API has math types; the result has the math type of `like`, or
// the default if `like` is null.
Result<FusedConvolution> ReadFusedConvolution(std::string_view json,
                                              const FusedConvolution* like = nullptr);

}  // namespace ucudnn::cudnn
