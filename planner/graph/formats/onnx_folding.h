// ONNX nodes that compute with constants only. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/graph/formats/onnx_attributes.h"
#include "planner/graph/formats/onnx_constants.h"

namespace ucudnn::planner {

// The outputs of `node` where it computes with constants only, absent ones null. Shapes follow from
// the operator's rule in operator set `opset`; where there is none the outputs are not known.
std::vector<OnnxConstant> FoldConstants(const onnx::NodeProto& node,
                                        const std::vector<const OnnxConstant*>& inputs,
                                        int64_t opset);

// Whether each element of the constant is known to be its own position in row-major order.
bool CountsUp(const OnnxConstant& constant);

}  // namespace ucudnn::planner
