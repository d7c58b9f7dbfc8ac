// Computes ONNX nodes that read only constants. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/graph/formats/onnx_attributes.h"
#include "planner/graph/formats/onnx_constants.h"

namespace ucudnn::planner {

// Returns the outputs of `node`, which reads only constants; absent inputs are null. The operator's
// rule in operator set `opset` gives the shapes; the outputs of an operator without a rule are not
// known.
std::vector<OnnxConstant> FoldConstants(const onnx::NodeProto& node,
                                        const std::vector<const OnnxConstant*>& inputs,
                                        int64_t opset);

// Returns whether each element is known to equal its own position in row-major order.
bool CountsUp(const OnnxConstant& constant);

}  // namespace ucudnn::planner
