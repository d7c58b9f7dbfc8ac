#include "planner/graph/formats/onnx_extents.h"

#include <algorithm>
#include <limits>
#include <string>

#include "planner/graph/formats/onnx_attributes.h"

namespace ucudnn::planner {

std::vector<int64_t> StridesOf(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t at = dims.size(); at-- > 1;) strides[at - 1] = strides[at] * dims[at];
  return strides;
}

std::optional<std::vector<int64_t>> Broadcast(std::vector<int64_t> a, std::vector<int64_t> b) {
  const size_t rank = std::max(a.size(), b.size());
  a.insert(a.begin(), rank - a.size(), 1);
  b.insert(b.begin(), rank - b.size(), 1);
  for (size_t axis = 0; axis < rank; ++axis) {
    if (a[axis] == 1) a[axis] = b[axis];
    if (b[axis] != 1 && b[axis] != a[axis]) return std::nullopt;
  }
  return a;
}

SlicedAxis SliceOf(int64_t extent, int64_t start, int64_t end, int64_t step) {
  const auto bounded = [&](int64_t at, int64_t low, int64_t high) {
    if (at < 0) at = std::max(at, -extent - 1) + extent;
    return std::clamp(at, low, high);
  };
  SlicedAxis sliced;
  sliced.step = step;
  if (extent < 1) return sliced;
  if (step > 0) {
    sliced.begin = bounded(start, 0, extent);
    const int64_t length = bounded(end, 0, extent) - sliced.begin;
    sliced.count = length <= 0 ? 0 : (length - 1) / step + 1;
  } else {
    sliced.begin = bounded(start, 0, extent - 1);
    const int64_t length = sliced.begin - bounded(end, -1, extent - 1);
    const int64_t back = step == std::numeric_limits<int64_t>::min() ? step + 1 : step;
    sliced.count = length <= 0 ? 0 : (length - 1) / -back + 1;
  }
  return sliced;
}

std::optional<std::vector<int64_t>> ListOf(const onnx::NodeProto& node,
                                           const std::vector<const OnnxConstant*>& inputs,
                                           size_t input, const std::string& attribute) {
  if (input < inputs.size() && inputs[input] != nullptr) {
    return inputs[input]->is_known ? inputs[input]->WholeNumbers() : std::nullopt;
  }
  const bool is_computed = input < static_cast<size_t>(node.input_size()) &&
                           !node.input(static_cast<int>(input)).empty();
  if (is_computed) return std::nullopt;
  return OnnxAttributes(node).Numbers(attribute);
}

std::optional<std::vector<int64_t>> ReshapedExtents(const std::vector<int64_t>& from,
                                                    std::vector<int64_t> to, bool zero_is_zero) {
  __int128 all = 1;
  for (const int64_t extent : from) all *= extent;
  __int128 known = 1;
  size_t open = to.size();
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (to[axis] == 0 && !zero_is_zero) {
      if (axis >= from.size()) return std::nullopt;
      to[axis] = from[axis];
    }
    if (to[axis] == -1 && open == to.size()) {
      open = axis;
      continue;
    }
    if (to[axis] < 0 || to[axis] > kLargestConstantExtent) return std::nullopt;
    known *= to[axis];
    if (known > (__int128{1} << 62)) return std::nullopt;
  }
  if (open < to.size()) {
    if (known == 0 || all % known != 0) return std::nullopt;
    to[open] = static_cast<int64_t>(all / known);
    known = all;
  }
  if (known != all) return std::nullopt;
  return to;
}

std::optional<std::vector<int64_t>> SplitExtents(const onnx::NodeProto& node, int64_t extent,
                                                 const std::optional<std::vector<int64_t>>& list) {
  if (!list) return std::nullopt;
  std::vector<int64_t> parts = *list;
  if (parts.empty()) {
    const int64_t count = std::max<int64_t>(
        1, OnnxAttributes(node).Number("num_outputs", int64_t{node.output_size()}));
    const int64_t whole = extent / count + (extent % count > 0 ? 1 : 0);
    for (int64_t at = 0; at < extent && parts.size() < static_cast<size_t>(node.output_size());
         at += whole) {
      parts.push_back(std::min(whole, extent - at));
    }
  }
  int64_t all = 0;
  for (const int64_t part : parts) {
    if (part < 0 || part > extent) return std::nullopt;
    all += part;
  }
  if (all != extent || parts.size() != static_cast<size_t>(node.output_size())) return std::nullopt;
  return parts;
}

std::optional<size_t> AxisOf(int64_t axis, size_t rank) {
  const auto count = static_cast<int64_t>(rank);
  if (axis < -count || axis >= count) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + count : axis);
}

}  // namespace ucudnn::planner
