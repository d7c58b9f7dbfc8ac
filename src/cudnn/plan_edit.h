// Makes the same execution plan for another mini-batch, other scales, other extents or another
// engine by replacing single values of cuDNN's plan JSON. The result is read back and must say
// exactly what was wanted; the rest of the text stays byte for byte. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "cudnn/fused_convolution.h"

namespace ucudnn::cudnn {

struct PlanEdit {
  int n = 1;  // images
  double alpha = 1, beta = 0;
};

// `json`, whose content is `convolution`, with the batch and scales of `edit`.
Result<std::string> EditPlan(std::string_view json, const FusedConvolution& convolution,
                             const PlanEdit& edit);

// `json` for images of other extents: `problem` differs from the convolution's in mini-batch,
// extents, padding and strides, and all of its tensors are packed. What is fused must read nothing
// but one value for each channel, and tensors that are laid out like the output.
Result<std::string> WithExtents(std::string_view json, const FusedConvolution& convolution,
                                const ConvolutionProblem& problem);

// `json` with `engine`, which is unfused, and everything else unchanged. Knobs that the engine does
// not name are left at their default.
Result<std::string> WithEngine(std::string_view json, const FusedConvolution& convolution,
                               const EngineId& engine);

}  // namespace ucudnn::cudnn
