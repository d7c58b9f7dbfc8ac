// Edits an execution plan for a part of its convolution, for other scales or for another engine, by
// replacing single members of cuDNN's plan JSON. The edited text is read back and must say exactly
// what was requested; all other members stay the same byte for byte. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "cudnn/fused_convolution.h"

namespace ucudnn::cudnn {

struct PlanEdit {
  // The problem that the edited plan computes: the convolution's own problem with other images,
  // channels, groups, extents, paddings and strides.
  ConvolutionProblem problem;
  double alpha = 1, beta = 0;
};

// Returns `json` edited by `edit`; engine and knobs stay the same. `convolution` is the content of
// `json`. A tensor whose extents change may begin wherever edit.problem.alignment allows, so its
// declared alignment becomes at most edit.problem.alignment; other tensors keep their alignment.
// Fused operations read the part of their tensors that belongs to the part of the output. Fails if
// a tensor is used several times and the uses need different parts of it.
Result<std::string> EditPlan(std::string_view json, const FusedConvolution& convolution,
                             const PlanEdit& edit);

struct EditedPlan {
  std::string json;
  FusedConvolution convolution;  // the content of `json`, by ReadFusedConvolution
};

// Returns `json` with `engine` in place of the plan's engine. All other members stay unchanged.
// `engine` names no fused operations; knobs that it does not name have their default.
Result<EditedPlan> WithEngine(std::string_view json, const FusedConvolution& convolution,
                              const EngineId& engine);

}  // namespace ucudnn::cudnn
