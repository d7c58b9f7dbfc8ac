// The constants of an ONNX graph: their shapes, and the values of small constants, from which
// exporters compute shapes. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/graph/formats/onnx_attributes.h"

namespace ucudnn::planner {

// Above the first limit a constant has no values; above either of the others it is not known.
constexpr int64_t kMostConstantValues = 4096;
constexpr size_t kMostConstantAxes = 16;
constexpr int64_t kLargestConstantExtent = int64_t{1} << 40;  // the product of two extents fits

// Types of elements, with ONNX's numbers.
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
  // Values in row-major order; none if the tensor is large, or if its values are in another file or
  // cannot be computed.
  std::optional<std::vector<double>> values;
  bool repeated = false;  // one number for all elements, so that nothing is trained
  bool is_known = true;   // else no rule gives its shape, and `dims` is empty
  int64_t type = kInt64;  // OnnxType or another type of ONNX
  // The file's tensor that holds these numbers, perhaps in another order; -1: they are computed.
  int tensor = -1;
  int64_t numbers = 0;  // how many different elements of the file they come from, at most
  // The element at a position is the sum of position x step over all axes. Known for some tensors
  // too large for `values`: numbers that count the images of any batch.
  std::optional<std::vector<int64_t>> steps = std::nullopt;

  // Returns whether the elements are floating-point numbers.
  bool IsReal() const;
  // Returns the product of the extents; -1 if one is no count or the product does not fit.
  int64_t Elements() const;
  // Returns the values as whole numbers; none if they are not whole.
  std::optional<std::vector<int64_t>> WholeNumbers() const;
  // Returns whether each element is known to be its own position in row-major order.
  bool CountsUp() const;
};

// The constant gets the identity `tensor`. If the tensor says that its values are in a separate
// file, small whole numbers are read from `folder`, unless that is empty.
OnnxConstant ReadConstant(const onnx::TensorProto& proto, int tensor,
                          const std::string& folder = "");

OnnxConstant ReadSparseConstant(const onnx::SparseTensorProto& sparse, int tensor);

// Returns the output of a Constant node.
OnnxConstant ReadConstantNode(const onnx::NodeProto& node, int tensor,
                              const std::string& folder = "");

// Returns the output of `node`, a Shape or Size, for a tensor of these extents.
OnnxConstant ShapeConstant(const onnx::NodeProto& node, const std::vector<int64_t>& extents);

// Returns a constant of which nothing is known.
OnnxConstant UnknownConstant();

// Drops what would make a small file take much memory, and rounds values to their type: Floor(13 x
// 1.6153846) is 21 in 32-bit floats, and 20 in longer floats.
OnnxConstant Bounded(OnnxConstant constant);

}  // namespace ucudnn::planner
