// Plans whose CUDA kernels the library compiles when the plan is made. cuDNN's JSON of such a plan
// holds the CUDA kernels, which have the batch among their parameters. So a plan with edited
// extents would still run the old batch. Such plans are compiled again from the operations in the
// JSON, as a program would compile them.
#pragma once

#include <string_view>

#include "cudnn/backend.h"

namespace ucudnn::cudnn {

// Builds the operation graph that `json` describes: a convolution followed by pointwise operations.
Result<BackendDescriptor> GraphOfPlan(const Functions& functions, const PlanDevice& device,
                                      std::string_view json);

// Builds the operation graph of `json` as GraphOfPlan does, and the finalized plan of the engine
// that `json` names. May take half a second.
Result<BackendDescriptor> CompilePlan(const Functions& functions, const PlanDevice& device,
                                      std::string_view json);

}  // namespace ucudnn::cudnn
