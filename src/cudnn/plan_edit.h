// Makes the same execution plan for a part of its convolution, for other scales or for another
// engine, by replacing single values of cuDNN's plan JSON. The result is read back and must say
// exactly what was wanted; the rest of the text stays byte for byte. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "cudnn/fused_convolution.h"

namespace ucudnn::cudnn {

struct PlanEdit {
  // What the plan computes then: the convolution's own problem with other images, channels, groups,
  // extents, paddings and strides.
  ConvolutionProblem problem;
  double alpha = 1, beta = 0;
};

// `json`, whose content is `convolution`, as `edit` says, with the same engine and knobs. A tensor
// whose extents change may begin anywhere that problem.alignment allows, so no more than that is
// declared for it; all others stay as aligned as they are. What is fused reads the part of each of
// its tensors that belongs to the part of the output. An error where one tensor is several, which
// have other parts.
Result<std::string> EditPlan(std::string_view json, const FusedConvolution& convolution,
                             const PlanEdit& edit);

struct EditedPlan {
  std::string json;
  FusedConvolution convolution;  // which ReadFusedConvolution reads in `json`
};

// `json` with `engine`, which is unfused, and everything else unchanged. Knobs that the engine does
// not name are left at their default.
Result<EditedPlan> WithEngine(std::string_view json, const FusedConvolution& convolution,
                              const EngineId& engine);

}  // namespace ucudnn::cudnn
