// The constants of an ONNX graph: their shapes, and the values of small ones, from which torch and
// TensorFlow compute shapes. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/graph/formats/onnx_attributes.h"

namespace ucudnn::planner {

struct OnnxConstant {
  std::vector<int64_t> dims;
  // In row-major order; none of large tensors, or where they lie elsewhere or cannot be computed.
  std::optional<std::vector<double>> values;
  bool repeated = false;  // one number for all elements: nothing that is trained

  // The product of the extents; -1 where it is no count or does not fit.
  int64_t Elements() const;
  // The values as whole numbers, if they are.
  std::optional<std::vector<int64_t>> WholeNumbers() const;
};

OnnxConstant ReadConstant(const onnx::TensorProto& tensor);

// What a Constant node gives.
OnnxConstant ReadConstantNode(const onnx::NodeProto& node);

// What the Shape node `node` gives for a tensor of these extents.
OnnxConstant ShapeConstant(const onnx::NodeProto& node, const std::vector<int64_t>& extents);

// What `node` makes of constants only, absent ones null. What is not computed here has no values,
// and the extents of its first input.
OnnxConstant FoldConstants(const onnx::NodeProto& node,
                           const std::vector<const OnnxConstant*>& inputs);

}  // namespace ucudnn::planner
