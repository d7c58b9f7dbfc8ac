#include "convolution/partition.h"

#include <algorithm>

namespace ucudnn {
int64_t FloorDivide(int64_t dividend, int64_t divisor) {
  return dividend / divisor - (dividend % divisor < 0 ? 1 : 0);
}

int64_t CeilDivide(int64_t dividend, int64_t divisor) {
  return dividend / divisor + (dividend % divisor > 0 ? 1 : 0);
}

Interval Intersection(const Interval& a, const Interval& b) {
  const Interval both = {std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.Length() > 0 ? both : Interval{};
}

int64_t Overlap(const Interval& a, const Interval& b) {
  return std::max<int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

Interval Part(int64_t extent, int parts, int index) {
  extent = std::max<int64_t>(0, extent);
  const int64_t quotient = extent / parts;
  const int64_t larger = extent % parts;
  const int64_t begin = index * quotient + std::min<int64_t>(index, larger);
  return {begin, begin + quotient + (index < larger ? 1 : 0)};
}

int64_t Elements(const Box& box) {
  int64_t elements = 1;
  for (const Interval& interval : box) elements *= interval.Length();
  return elements;
}

Box Intersection(const Box& a, const Box& b) {
  Box both;
  for (size_t axis = 0; axis < kTensorAxes; ++axis) both[axis] = Intersection(a[axis], b[axis]);
  return both;
}

SlidingWindow WindowOf(const ConvolutionProblem& problem, size_t spatial_axis) {
  return {problem.w[spatial_axis], problem.dilation[spatial_axis], problem.stride[spatial_axis],
          problem.pad[spatial_axis]};
}

Interval UnderWindows(const SlidingWindow& window, const Interval& outputs, int64_t image) {
  // Windows that lie entirely in the padding read nothing, so only the other windows bound the
  // interval.
  const int64_t first =
      std::max(outputs.begin, FloorDivide(window.pad - window.Extent(), window.stride) + 1);
  const int64_t end = std::min(outputs.end, CeilDivide(image + window.pad, window.stride));
  if (first >= end) return {};
  return Intersection(Interval{first * window.stride - window.pad,
                               (end - 1) * window.stride - window.pad + window.Extent()},
                      Interval{0, image});
}

Interval WindowsOver(const SlidingWindow& window, const Interval& elements, int64_t windows) {
  if (elements.Length() == 0) return {};
  const int64_t first =
      FloorDivide(elements.begin + window.pad - window.Extent(), window.stride) + 1;
  const int64_t end = CeilDivide(elements.end + window.pad, window.stride);
  return Intersection(Interval{first, end}, Interval{0, windows});
}

Interval ChannelsOfGroups(const Interval& channels, int64_t per_group, int64_t others_per_group) {
  if (channels.Length() == 0) return {};
  return {FloorDivide(channels.begin, per_group) * others_per_group,
          CeilDivide(channels.end, per_group) * others_per_group};
}

}  // namespace ucudnn
