// Edits an execution plan for a part of its convolution, for other scales or for another engine, by
// replacing single values of cuDNN's plan JSON. The result is read back and must say exactly what
// was wanted; the rest of the text stays the same byte for byte. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "cudnn/fused_convolution.h"

namespace ucudnn::cudnn {

struct PlanEdit {
  // The problem that the edited plan computes: the convolution's own with other images, channels,
  // groups, extents, paddings and strides.
  ConvolutionProblem problem;
  double alpha = 1, beta = 0;
};

// Returns `json`, whose content is `convolution`, edited by `edit`, with the same engine and knobs.
// A tensor whose extents change may begin anywhere that problem.alignment allows, so its declared
// alignment is at most that; all others keep their alignment. Fused operations read the part of
// each of their tensors that belongs to the part of the output. Fails if one tensor has several
// uses whose parts differ.
Result<std::string> EditPlan(std::string_view json, const FusedConvolution& convolution,
                             const PlanEdit& edit);

struct EditedPlan {
  std::string json;
  FusedConvolution convolution;  // the content of `json`, by ReadFusedConvolution
};

// Returns `json` with `engine`, which is unfused, and everything else unchanged. Knobs that the
// engine does not name are left at their default.
Result<EditedPlan> WithEngine(std::string_view json, const FusedConvolution& convolution,
                              const EngineId& engine);

}  // namespace ucudnn::cudnn
