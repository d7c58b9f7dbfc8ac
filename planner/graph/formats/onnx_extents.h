// Computes extents of outputs of ONNX operators, and reads the inputs and attributes that determine
// these extents. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/graph/formats/onnx_constants.h"

namespace ucudnn::planner {

// Returns the distance between neighbouring elements along each axis, in row-major order.
std::vector<int64_t> StridesOf(const std::vector<int64_t>& dims);

// Returns the extents of a tensor computed element by element from tensors of extents `a` and `b`,
// as ONNX broadcasts them; none if they do not fit.
std::optional<std::vector<int64_t>> Broadcast(std::vector<int64_t> a, std::vector<int64_t> b);

// The begin, step and number of elements of a slice of one axis. The step is not 0.
struct SlicedAxis {
  int64_t begin = 0;
  int64_t step = 1;
  int64_t count = 0;
};
SlicedAxis SliceOf(int64_t extent, int64_t start, int64_t end, int64_t step);

// Returns a list that newer operators read from input `input`, and older ones from the attribute
// `attribute`. Returns none if the list is not a known constant. If the node has neither the input
// nor the attribute, the list is empty.
std::optional<std::vector<int64_t>> ListOf(const onnx::NodeProto& node,
                                           const std::vector<const OnnxConstant*>& inputs,
                                           size_t input, const std::string& attribute);

// Returns the extents of a Reshape's output; none if its number of elements differs from the
// input's.
std::optional<std::vector<int64_t>> ReshapedExtents(const std::vector<int64_t>& from,
                                                    std::vector<int64_t> to, bool zero_is_zero);

// Returns the extents of the parts into which Split divides `extent`; none if they do not sum to
// `extent`.
std::optional<std::vector<int64_t>> SplitExtents(const onnx::NodeProto& node, int64_t extent,
                                                 const std::optional<std::vector<int64_t>>& list);

// Returns the position of axis `axis` among `rank` axes; none if there is no such axis. A negative
// `axis` counts from the end.
std::optional<size_t> AxisOf(int64_t axis, size_t rank);

}  // namespace ucudnn::planner
