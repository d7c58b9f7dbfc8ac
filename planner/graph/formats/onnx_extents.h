// The extents of the outputs of ONNX operators, and the fields that determine them. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/graph/formats/onnx_constants.h"

namespace ucudnn::planner {

// Returns the distance between neighbouring elements along each axis, in row-major order.
std::vector<int64_t> StridesOf(const std::vector<int64_t>& dims);

// Returns the extents that two tensors have when they meet element by element; none if they do not
// fit.
std::optional<std::vector<int64_t>> Broadcast(std::vector<int64_t> a, std::vector<int64_t> b);

// Where a slice of an axis of `extent` begins and how many elements it takes. Its step is not 0.
struct SlicedAxis {
  int64_t begin = 0;
  int64_t step = 1;
  int64_t count = 0;
};
SlicedAxis SliceOf(int64_t extent, int64_t start, int64_t end, int64_t step);

// Reads a list that newer operators take as an input and older operators as an attribute; none if
// the list is computed in another way, empty if the node has neither.
std::optional<std::vector<int64_t>> ListOf(const onnx::NodeProto& node,
                                           const std::vector<const OnnxConstant*>& inputs,
                                           size_t input, const std::string& attribute);

// Returns the extents of a Reshape's output; none if the number of elements differs.
std::optional<std::vector<int64_t>> ReshapedExtents(const std::vector<int64_t>& from,
                                                    std::vector<int64_t> to, bool zero_is_zero);

// Returns the extents of the parts into which Split divides `extent`; none if they do not add up.
std::optional<std::vector<int64_t>> SplitExtents(const onnx::NodeProto& node, int64_t extent,
                                                 const std::optional<std::vector<int64_t>>& list);

// Returns the position of axis `axis` among `rank` axes; negative `axis` counts from the end; none
// if outside.
std::optional<size_t> AxisOf(int64_t axis, size_t rank);

}  // namespace ucudnn::planner
