// The constants of an ONNX graph: their shapes, and the values of small constants, from which
// exporters compute shapes. The functions keep no state. A function with a `folder` may read files
// in it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/graph/formats/onnx_attributes.h"

namespace ucudnn::planner {

// Limits of constants. A constant with more than kMostConstantValues elements gets no values. A
// constant that exceeds another limit is unknown (is_known is false).
constexpr int64_t kMostConstantValues = 4096;
constexpr size_t kMostConstantAxes = 16;
// The largest extent along one axis.
constexpr int64_t kLargestConstantExtent = int64_t{1} << 40;

// The types of elements that the importer names, with ONNX's numbers.
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
  // The values in row-major order; none if the tensor is large, if its values are in a file that is
  // not read, or if they cannot be computed.
  std::optional<std::vector<double>> values;
  bool repeated = false;  // whether all elements are one number, which is not trained
  bool is_known = true;   // false if no rule gives the shape; `dims` is empty in that case
  int64_t type = kInt64;  // an OnnxType or another type number of ONNX
  // The number of the file's tensor that has these elements, perhaps in another order; -1 if they
  // are computed.
  int tensor = -1;
  // A bound on the number of different values: copies of one element count once.
  int64_t numbers = 0;
  // If set, one step per axis: the element at a position is the sum over the axes of position *
  // step. This describes tensors that count positions and are too large for `values`.
  std::optional<std::vector<int64_t>> steps = std::nullopt;

  // Returns whether the elements are floating-point numbers.
  bool IsReal() const;
  // Returns the product of the extents; -1 if an extent is negative or the product does not fit.
  int64_t Elements() const;
  // Returns the values as whole numbers; none if there are no values or if one is not whole. Values
  // beyond 64 bits become the largest or smallest number.
  std::optional<std::vector<int64_t>> WholeNumbers() const;
};

// Reads a constant, which gets the number `tensor`. If its values are in a separate file, reads
// only small whole numbers, from `folder`, and none if `folder` is empty.
OnnxConstant ReadConstant(const onnx::TensorProto& proto, int tensor,
                          const std::string& folder = "");

OnnxConstant ReadSparseConstant(const onnx::SparseTensorProto& sparse, int tensor);

// Returns the constant that a Constant node gives.
OnnxConstant ReadConstantNode(const onnx::NodeProto& node, int tensor,
                              const std::string& folder = "");

// Returns the constant that `node`, a Shape or Size, gives for a tensor of these extents.
OnnxConstant ShapeConstant(const onnx::NodeProto& node, const std::vector<int64_t>& extents);

// Returns a constant whose shape and values are not known.
OnnxConstant UnknownConstant();

// Drops values and shapes above the limits, because a small file could otherwise make the importer
// use much memory. Rounds values to the constant's type, because rounding changes results: the
// floor of 13 x 1.6153846 is 21 in float32, but 20 in wider types.
OnnxConstant Bounded(OnnxConstant constant);

}  // namespace ucudnn::planner
