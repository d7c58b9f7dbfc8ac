#include "planner/cost/partition.h"

#include <algorithm>

namespace ucudnn::planner {
namespace {

enum OutputAxis { kN, kC, kD, kH, kW };

std::array<int64_t, kTensorAxes> Extents(const Shape& shape) {
  return {shape.n, shape.c, shape.extents[0], shape.extents[1], shape.extents[2]};
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct SlidingWindow {
  int64_t extent;  // with dilation
  int64_t stride;
  int64_t pad;
};

// The image elements under the windows of `outputs`; empty where all of them lie in the padding.
Interval UnderWindows(const SlidingWindow& window, const Interval& outputs, int64_t image) {
  const int64_t left = window.pad - window.extent + 1;  // windows that end before the image
  const int64_t first =
      std::max(outputs.begin, left > 0 ? CeilDivide(left, window.stride) : int64_t{0});
  const int64_t last = std::min(outputs.end, CeilDivide(image + window.pad, window.stride));
  if (first >= last) return {0, 0};
  return {std::max<int64_t>(0, first * window.stride - window.pad),
          std::min(image, (last - 1) * window.stride - window.pad + window.extent)};
}

// The input elements whose windows touch `outputs` of a transposed convolution.
Interval WindowsOver(const SlidingWindow& window, const Interval& outputs, int64_t input) {
  const int64_t left =
      outputs.begin + window.pad - window.extent + 1;  // of a window that begins so
  const int64_t first = left > 0 ? CeilDivide(left, window.stride) : 0;
  const int64_t last =
      std::min(input, CeilDivide(std::max<int64_t>(0, outputs.end + window.pad), window.stride));
  return first < last ? Interval{first, last} : Interval{0, 0};
}

void SlideBack(const Spatial& window, const Spatial& stride, const Spatial& pad,
               const Spatial& dilation, const Shape& input, Parts& parts) {
  for (int axis = 0; axis < kMaxSpatial; ++axis) {
    const auto at = static_cast<size_t>(axis);
    const SlidingWindow sliding{int64_t{window[at] - 1} * dilation[at] + 1, stride[at], pad[at]};
    for (Interval& interval : parts.axes[kD + at]) {
      interval = UnderWindows(sliding, interval, input.extents[at]);
    }
  }
}

void Whole(std::vector<Interval>& axis, int64_t extent) {
  std::fill(axis.begin(), axis.end(), Interval{0, extent});
}

void WholeImages(const Shape& input, Parts& parts) {
  for (int axis = 0; axis < kMaxSpatial; ++axis) {
    Whole(parts.axes[static_cast<size_t>(kD + axis)], input.extents[static_cast<size_t>(axis)]);
  }
}

// From output to input channels of the groups that hold them.
void GroupChannels(int32_t all_filters, int32_t groups, int64_t input_channels, Parts& parts) {
  const int64_t filters = all_filters / groups;
  const int64_t channels = input_channels / groups;
  for (Interval& interval : parts.axes[kC]) {
    interval = {interval.begin / filters * channels, CeilDivide(interval.end, filters) * channels};
  }
}

void SlideOver(const TransposedConvolution& layer, const Shape& input, Parts& parts) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const SlidingWindow sliding{int64_t{layer.window[axis] - 1} * layer.dilation[axis] + 1,
                                layer.stride[axis], layer.pad[axis]};
    for (Interval& interval : parts.axes[kD + axis]) {
      interval = WindowsOver(sliding, interval, input.extents[axis]);
    }
  }
}

// Each input element is `factor` output elements.
void Shrink(const Spatial& factor, Parts& parts) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    for (Interval& interval : parts.axes[kD + axis]) {
      interval = {interval.begin / factor[axis], CeilDivide(interval.end, factor[axis])};
    }
  }
}

void Shift(const Spatial& before, const Shape& input, Parts& parts) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t image = input.extents[axis];
    for (Interval& interval : parts.axes[kD + axis]) {
      interval = {std::clamp<int64_t>(interval.begin - before[axis], 0, image),
                  std::clamp<int64_t>(interval.end - before[axis], 0, image)};
    }
  }
}

// The part of `outputs` that lies in the input whose channels begin at `offset` of the output.
Interval ConcatChannels(const Interval& outputs, int64_t offset, int64_t channels) {
  const int64_t begin = std::clamp<int64_t>(outputs.begin - offset, 0, channels);
  const int64_t end = std::clamp<int64_t>(outputs.end - offset, 0, channels);
  return {begin, end};
}

}  // namespace

int64_t Overlap(const Interval& a, const Interval& b) {
  return std::max<int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

Interval Part(int64_t extent, int parts, int index) {
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

int Parts::Workers() const {
  size_t workers = 1;
  for (const auto& axis : axes) workers *= axis.size();
  return static_cast<int>(workers);
}

Box Parts::Of(int worker) const {
  Box box;
  auto rest = static_cast<size_t>(worker);
  for (size_t axis = kTensorAxes; axis-- > 0;) {
    box[axis] = axes[axis][rest % axes[axis].size()];
    rest /= axes[axis].size();
  }
  return box;
}

Parts OutputParts(const Shape& output, const Degrees& degrees) {
  Parts parts = ComputedParts(output, degrees);
  std::vector<Interval>& channels = parts.axes[kC];
  for (size_t at = 0; degrees.r > 1 && at < channels.size(); ++at) {
    const Interval kept = Part(channels[at].Length(), degrees.r, static_cast<int>(at) % degrees.r);
    channels[at] = {channels[at].begin + kept.begin, channels[at].begin + kept.end};
  }
  return parts;
}

Parts ComputedParts(const Shape& output, const Degrees& degrees) {
  const std::array<int64_t, kTensorAxes> extents = Extents(output);
  const std::array<int, kTensorAxes> counts = {degrees.n, degrees.c, 1, degrees.h, degrees.w};
  Parts parts;
  for (size_t axis = 0; axis < kTensorAxes; ++axis) {
    const int repeats = axis == kC ? degrees.r : 1;
    for (int index = 0; index < counts[axis]; ++index) {
      parts.axes[axis].insert(parts.axes[axis].end(), static_cast<size_t>(repeats),
                              Part(extents[axis], counts[axis], index));
    }
  }
  return parts;
}

Interval SummedPart(const PlannedLayer& layer, const Degrees& degrees, int index) {
  return Part(layer.inputs.front().shape.c, degrees.r, index);
}

Parts NeededParts(const PlannedLayer& layer, int input, const Degrees& degrees) {
  const Shape& shape = layer.inputs[static_cast<size_t>(input)].shape;
  Parts parts = ComputedParts(layer.output, degrees);
  if (const auto* convolution = std::get_if<Convolution>(&layer.op)) {
    GroupChannels(convolution->filters, convolution->groups, shape.c, parts);
    SlideBack(convolution->window, convolution->stride, convolution->pad, convolution->dilation,
              shape, parts);
  } else if (const auto* transposed = std::get_if<TransposedConvolution>(&layer.op)) {
    GroupChannels(transposed->filters, transposed->groups, shape.c, parts);
    SlideOver(*transposed, shape, parts);
  } else if (const auto* pooling = std::get_if<Pooling>(&layer.op)) {
    SlideBack(pooling->window, pooling->stride, pooling->pad, {1, 1, 1}, shape, parts);
  } else if (std::holds_alternative<GlobalPooling>(layer.op)) {
    WholeImages(shape, parts);
  } else if (const auto* upsampling = std::get_if<Upsampling>(&layer.op)) {
    Shrink(upsampling->factor, parts);
  } else if (const auto* padding = std::get_if<Padding>(&layer.op)) {
    Shift(padding->before, shape, parts);
  } else if (std::holds_alternative<Multiply>(layer.op)) {
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {  // a gate of one element is repeated
      if (shape.extents[axis] == 1) Whole(parts.axes[kD + axis], 1);
    }
  } else if (std::holds_alternative<FullyConnected>(layer.op)) {
    Whole(parts.axes[kC], shape.c);
    WholeImages(shape, parts);
  } else if (std::holds_alternative<Flatten>(layer.op)) {
    const int64_t image = shape.Features() / shape.c;
    for (Interval& features : parts.axes[kC]) {
      features = {features.begin / image, CeilDivide(features.end, image)};
    }
    WholeImages(shape, parts);
  } else if (std::holds_alternative<Concat>(layer.op)) {
    int64_t offset = 0;
    for (int before = 0; before < input; ++before) {
      offset += layer.inputs[static_cast<size_t>(before)].shape.c;
    }
    for (Interval& channels : parts.axes[kC]) channels = ConcatChannels(channels, offset, shape.c);
  } else if (const auto* norm = std::get_if<LocalResponseNormalization>(&layer.op)) {
    for (Interval& channels : parts.axes[kC]) {
      channels = {std::max<int64_t>(0, channels.begin - norm->size / 2),
                  std::min<int64_t>(shape.c, channels.end + norm->size / 2)};
    }
  }
  if (degrees.r > 1) {
    std::vector<Interval>& channels = parts.axes[kC];
    for (size_t at = 0; at < channels.size(); ++at) {
      channels[at] = SummedPart(layer, degrees, static_cast<int>(at) % degrees.r);
    }
  }
  return parts;
}

}  // namespace ucudnn::planner
