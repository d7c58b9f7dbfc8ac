// The constants of an ONNX graph: their shapes, and the values of small ones, from which exporters
// compute shapes. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/graph/formats/onnx_attributes.h"

namespace ucudnn::planner {

// Beyond these sizes a constant has no values, or is not known.
constexpr int64_t kMostConstantValues = 4096;
constexpr size_t kMostConstantAxes = 16;
constexpr int64_t kLargestConstantExtent = int64_t{1} << 40;  // products of two fit

// Types of elements, as ONNX numbers them.
enum OnnxType {
  kFloat = 1,
  kInt8 = 3,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kHalf = 10,
  kDouble = 11,
  kBfloat16 = 16
};

struct OnnxConstant {
  std::vector<int64_t> dims;
  // In row-major order; none of large tensors, or where they lie elsewhere or cannot be computed.
  std::optional<std::vector<double>> values;
  bool repeated = false;  // one number for all elements: nothing that is trained
  bool is_known = true;   // else no rule says its shape, and `dims` is empty
  int64_t type = kInt64;  // OnnxType or another type of ONNX
  // Which tensor's numbers these are, in an order that may differ; -1: computed ones.
  int tensor = -1;
  int64_t numbers = 0;  // how many different elements of the file they come from, at most
  // The element at a position is the sum of position x step over all axes, where that is known of a
  // tensor too large for `values`: numbers that count the images of any batch.
  std::optional<std::vector<int64_t>> steps = std::nullopt;

  // Whether the elements are floating-point numbers.
  bool IsReal() const;
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

// A constant of which nothing is known.
OnnxConstant UnknownConstant();

// The constant without what would make a small file take much memory, and with values as its type
// holds them: Floor(13 x 1.6153846) is 21 of 32-bit floats, and 20 of longer ones.
OnnxConstant Bounded(OnnxConstant constant);

}  // namespace ucudnn::planner
