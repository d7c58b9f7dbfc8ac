// The extents that ONNX operators give, and the fields from which they follow. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/graph/formats/onnx_constants.h"

namespace ucudnn::planner {

// How far apart the elements of a tensor of these extents are along each axis, in row-major order.
std::vector<int64_t> StridesOf(const std::vector<int64_t>& dims);

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
