// The placement of a tensor's elements in memory. Plain values.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "convolution/problem.h"
#include "cudnn/fused_operands.h"

namespace ucudnn::tuning {

// A tensor in memory. Extents and strides are in elements, in the order n, c, d, h, w (k, c, d, h,
// w for a filter).
struct Tensor {
  DataType type = DataType::kFloat;
  std::array<int64_t, kMaxSpatial + 2> extents = {1, 1, 1, 1, 1};
  Strides strides = {};

  int64_t Elements() const;
  int64_t Span() const;  // elements of memory from the first to the last one, inclusive
  size_t Bytes() const { return static_cast<size_t>(Span()) * ElementBytes(type); }
  // Returns whether the stride of each axis is at least the number of elements that the axes with
  // smaller strides span together, so that no two elements share memory.
  bool IsNested() const;
  // Returns the position, in the order of extents, of the element at `offset`. REQUIRES:
  // IsNested().
  std::array<int64_t, kMaxSpatial + 2> Position(int64_t offset) const;
};

Tensor ImageTensor(const ConvolutionProblem& problem);
Tensor FilterTensor(const ConvolutionProblem& problem);
Tensor OutputTensor(const ConvolutionProblem& problem);
// Returns the tensor that the operation writes.
Tensor ResultTensor(const ConvolutionProblem& problem);
// `operand` is an operand of the operations that are fused after a whole convolution. Returns the
// tensor that these operations read for `part`, a part of that convolution. If the operand has
// separate elements for each image, the tensor is laid out like the part's result. Otherwise the
// tensor has only the elements that the part's positions read, and extent 1 along an axis where all
// positions read the same element.
Tensor FusedTensor(const cudnn::FusedOperand& operand, const ConvolutionProblem& part);

// An axis of more than one element.
struct Axis {
  int64_t extent;
  int64_t stride;
  int64_t reach;  // elements of memory that this axis and all axes with smaller strides span
  int index;
};

// Returns the axes in descending order of stride; never empty.
std::vector<Axis> SortedAxes(const Tensor& tensor);

// Calls visit(offset, count, stride) for every run of elements within [begin, end) along the
// innermost of `axes`. `offset` is the offset of the element whose indices are all 0.
template <typename Visit>
void ForEachRun(std::span<const Axis> axes, int64_t offset, int64_t begin, int64_t end,
                const Visit& visit) {
  const Axis& axis = axes.front();
  const int64_t inner = axes.size() > 1 ? axes[1].reach : 1;
  // An index i has an element in [begin, end) if offset + i * stride + inner > begin and offset + i
  // * stride < end.
  const int64_t from_begin = begin - offset - inner + 1;
  const int64_t first = from_begin <= 0 ? 0 : (from_begin + axis.stride - 1) / axis.stride;
  const int64_t last =
      end <= offset ? 0 : std::min(axis.extent, (end - offset + axis.stride - 1) / axis.stride);
  if (first >= last) return;
  if (axes.size() == 1) return visit(offset + first * axis.stride, last - first, axis.stride);
  for (int64_t i = first; i < last; ++i) {
    ForEachRun(axes.subspan(1), offset + i * axis.stride, begin, end, visit);
  }
}

}  // namespace ucudnn::tuning
