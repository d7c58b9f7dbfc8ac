// A plan of the graph API in words, for messages about plans that ucudnn does not read. Pure
// function.
#pragma once

#include <string>
#include <string_view>

namespace ucudnn::cudnn {

// Describes the plan's operations in their order, each convolution with the extents of its image
// and filter: "mul + relu_fwd + convolution_forward 64x32x28x28 by 64x32x3x3 half + gen_stats".
// `json` may have any schema; what it does not contain is left out, and the shortest result is "a
// plan of the graph API".
std::string PlanWords(std::string_view json);

}  // namespace ucudnn::cudnn
