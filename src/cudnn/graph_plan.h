// What a finalized execution plan of the graph API computes, read from its JSON
// (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION): a convolution, or why ucudnn leaves the plan
// alone. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "convolution/problem.h"

namespace ucudnn::cudnn {

// One convolution, alone or (forward) with pointwise operations fused behind it: at most one
// residual, a tensor of the output's shape that is added, at most one bias, one value for each
// channel that is added, and one activation at the end.
struct GraphPlan {
  // x, w and y are image, filter and final output (or their gradients); math is the default, for
  // the engine's own arithmetic is part of its name; alignment is the largest one declared for a
  // batched tensor.
  ConvolutionProblem problem;
  // All that selects it: "graph:38[k2=1,k14=0]", knobs (cudnnBackendKnobType_t) by rising number,
  // those left at their default left out; what is fused follows as "+residual+bias+relu".
  std::string engine;
  double alpha = 1;
  double beta = 0;
  int64_t x_uid = 0, w_uid = 0, y_uid = 0;
  std::optional<int64_t> residual_uid, bias_uid;
  size_t bias_bytes = 0;
  int64_t w_alignment = 1;  // bytes, as declared
  // Tensors of the JSON, counted from 0, whose leading extent is the mini-batch (virtual ones,
  // too), as bits.
  uint64_t batched = 0;
  int tensors = 0;

  bool operator==(const GraphPlan&) const = default;
};

// Why ReadGraphPlan would refuse `json`, where a glance at its text tells; null where it has to be
// read.
const char* UnfamiliarAtAGlance(std::string_view json);

// Whether `json`, of whatever schema, speaks of a convolution.
bool HoldsConvolution(std::string_view json);

// Every member, name and value must be known: whatever is unfamiliar is an error that says what.
// `like`: the same plan at another batch, which tells a bias from a residual where they look alike,
// in single images of one element a channel; null: the first is the bias.
Result<GraphPlan> ReadGraphPlan(std::string_view json, const GraphPlan* like = nullptr);

}  // namespace ucudnn::cudnn
