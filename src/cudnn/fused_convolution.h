// The convolution that a finalized execution plan of the graph API computes, read from its JSON
// (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION), or the reason why ucudnn leaves the plan alone.
// Pure functions.
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

// One convolution, alone or (forward and backward_data) with pointwise operations fused behind it.
struct FusedConvolution {
  // x, w and y are the image, filter and final output, or their gradients. The math type is the
  // default, because the engine's own arithmetic is part of its name. The alignment is the largest
  // one that is declared for a batched tensor.
  ConvolutionProblem problem;
  // Describes the engine as an engine of the graph API. Its knobs come in ascending order of
  // numbers, without those at their default; its text ends in FusedOperations::text.
  EngineId engine;
  double alpha = 1;
  double beta = 0;
  int64_t x_uid = 0, w_uid = 0, y_uid = 0;
  std::vector<FusedOperand> operands;  // tensors that the fused operations read
  int64_t w_alignment = 1;             // declared, in bytes
  // The library compiled the engine's kernels for this batch, so another batch needs other kernels.
  bool compiled = false;
  // One bit for each tensor of the JSON, counted from 0: set if its leading extent is the
  // mini-batch. Virtual tensors count too.
  uint64_t batched = 0;
  int tensors = 0;

  bool operator==(const FusedConvolution&) const = default;
};

// Returns the reason for which ReadFusedConvolution would refuse `json`, if a glance at the text
// shows it; null if the text has to be read.
const char* UnfamiliarAtAGlance(std::string_view json);

// Returns whether `json`, in any schema, contains a convolution.
bool HoldsConvolution(std::string_view json);

// Reads a plan. Every member, name and value must be known; an error says what is unfamiliar. If
// there is a single image, a tensor with elements for each image looks like one that all images
// share: `like`, the same plan at another batch, tells them apart (null: none).
Result<FusedConvolution> ReadFusedConvolution(std::string_view json,
                                              const FusedConvolution* like = nullptr);

}  // namespace ucudnn::cudnn
