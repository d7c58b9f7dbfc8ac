// The constants of an ONNX graph: their shapes, and the values of small ones, from which exporters
// compute shapes. Pure functions.
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
  bool is_known = true;   // else no rule says its shape, and `dims` is empty
  bool is_real = false;   // of a floating-point type
  // Which tensor's numbers these are, in an order that may differ; -1: computed ones.
  int tensor = -1;
  int64_t numbers = 0;  // how many different elements of the file they come from, at most
  // The element at a position is the sum of position x step over all axes, where that is known of a
  // tensor too large for `values`: numbers that count the images of any batch.
  std::optional<std::vector<int64_t>> steps = std::nullopt;

  // The product of the extents; -1 where it is no count or does not fit.
  int64_t Elements() const;
  // The values as whole numbers, if they are.
  std::optional<std::vector<int64_t>> WholeNumbers() const;
  // Whether each element is known to be its own position in row-major order.
  bool CountsUp() const;
};

// `tensor` is to be its identity. Small whole numbers are read from `folder`, if that is not empty,
// where the tensor says that they lie in a file of its own.
OnnxConstant ReadConstant(const onnx::TensorProto& proto, int tensor,
                          const std::string& folder = "");

OnnxConstant ReadSparseConstant(const onnx::SparseTensorProto& sparse, int tensor);

// What a Constant node gives.
OnnxConstant ReadConstantNode(const onnx::NodeProto& node, int tensor,
                              const std::string& folder = "");

// What the Shape or Size node `node` gives for a tensor of these extents.
OnnxConstant ShapeConstant(const onnx::NodeProto& node, const std::vector<int64_t>& extents);

// The outputs of `node` where it computes with constants only, absent ones null. Shapes follow from
// the operator's rule in operator set `opset`; where there is none the outputs are not known.
std::vector<OnnxConstant> FoldConstants(const onnx::NodeProto& node,
                                        const std::vector<const OnnxConstant*>& inputs,
                                        int64_t opset);

// The extents that two tensors have when they meet element by element; none where they do not fit.
std::optional<std::vector<int64_t>> Broadcast(std::vector<int64_t> a, std::vector<int64_t> b);

// Where a slice of an axis of `extent` begins and how many elements it takes; a step is not 0.
struct SlicedAxis {
  int64_t begin = 0;
  int64_t step = 1;
  int64_t count = 0;
};
SlicedAxis SliceOf(int64_t extent, int64_t start, int64_t end, int64_t step);

// The reading of a list that newer operators take as an input and older ones as an attribute; none
// where it is computed in another way, empty where the node has neither.
std::optional<std::vector<int64_t>> ListOf(const onnx::NodeProto& node,
                                           const std::vector<const OnnxConstant*>& inputs,
                                           size_t input, const std::string& attribute);

// The extents that Reshape makes of those of its input; none where numbers are left.
std::optional<std::vector<int64_t>> ReshapedExtents(const std::vector<int64_t>& from,
                                                    std::vector<int64_t> to, bool zero_is_zero);

// Extents of the parts that Split makes of `extent`; none where they do not add up.
std::optional<std::vector<int64_t>> SplitExtents(const onnx::NodeProto& node, int64_t extent,
                                                 const std::optional<std::vector<int64_t>>& list);

// The axis `axis` of `rank`, from the end where negative; none outside.
std::optional<size_t> AxisOf(int64_t axis, size_t rank);

}  // namespace ucudnn::planner
