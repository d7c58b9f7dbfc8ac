// Computes ONNX nodes that read only constants. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/graph/formats/onnx_attributes.h"
#include "planner/graph/formats/onnx_constants.h"

namespace ucudnn::planner {

// Returns the outputs of `node` if it reads only constants; absent inputs are null. Shapes follow
// from the operator's rule in operator set `opset`; without a rule the outputs are not known.
std::vector<OnnxConstant> FoldConstants(const onnx::NodeProto& node,
                                        const std::vector<const OnnxConstant*>& inputs,
                                        int64_t opset);

// Returns whether each element of the constant is known to be its own position in row-major order.
bool CountsUp(const OnnxConstant& constant);

}  // namespace ucudnn::planner
