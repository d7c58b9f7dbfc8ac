#include "planner/cost/partition.h"

#include <algorithm>

namespace ucudnn::planner {
namespace {

TensorExtents ExtentsOf(const Shape& shape) {
  return {shape.n, shape.c, shape.extents[0], shape.extents[1], shape.extents[2]};
}

// Describes the windows of a convolution, a transposed convolution or a pooling.
struct Windows {
  Spatial extents;
  Spatial stride;
  Spatial pad;
  Spatial dilation;

  SlidingWindow Along(size_t axis) const {
    return {extents[axis], dilation[axis], stride[axis], pad[axis]};
  }
};

void SlideBack(const Windows& windows, const Shape& input, Parts& parts) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    for (Interval& interval : parts.axes[kAxisD + axis]) {
      interval = UnderWindows(windows.Along(axis), interval, input.extents[axis]);
    }
  }
}

void SlideOver(const Windows& windows, const Shape& input, Parts& parts) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    for (Interval& interval : parts.axes[kAxisD + axis]) {
      interval = WindowsOver(windows.Along(axis), interval, input.extents[axis]);
    }
  }
}

void CoverAxis(std::vector<Interval>& axis, int64_t extent) {
  std::fill(axis.begin(), axis.end(), Interval{0, extent});
}

void WholeImages(const Shape& input, Parts& parts) {
  for (int axis = 0; axis < kMaxSpatial; ++axis) {
    CoverAxis(parts.axes[static_cast<size_t>(kAxisD + axis)],
              input.extents[static_cast<size_t>(axis)]);
  }
}

// Replaces each interval of output channels by the input channels of the groups to which these
// output channels belong.
void GroupChannels(int32_t all_filters, int32_t groups, int64_t input_channels, Parts& parts) {
  for (Interval& interval : parts.axes[kAxisC]) {
    interval = ChannelsOfGroups(interval, all_filters / groups, input_channels / groups);
  }
}

// Replaces intervals of an upsampling's output by the input elements that they need: one element
// per `factor` outputs, and `reach` neighbours on each side for the interpolation.
void Shrink(const Upsampling& upsampling, const Shape& input, Parts& parts) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t factor = upsampling.factor[axis];
    const int64_t reach = factor > 1 ? upsampling.reach : 0;
    for (Interval& interval : parts.axes[kAxisD + axis]) {
      interval = {std::max<int64_t>(0, interval.begin / factor - reach),
                  std::min<int64_t>(input.extents[axis], CeilDivide(interval.end, factor) + reach)};
    }
  }
}

// Replaces each interval of an output axis by the elements of one input that lie in it. The input
// has `extent` elements along the axis, and begins at element `offset` of the output.
void Shift(std::vector<Interval>& axis, int64_t offset, int64_t extent) {
  for (Interval& interval : axis) {
    interval = {std::clamp<int64_t>(interval.begin - offset, 0, extent),
                std::clamp<int64_t>(interval.end - offset, 0, extent)};
  }
}

// Replaces intervals of a Roll's output by the input elements that they need. An interval that
// crosses the end of the axis would need two intervals of the input, so the whole axis replaces it.
void Unroll(std::vector<Interval>& axis, int64_t shift, int64_t extent) {
  shift = (shift % extent + extent) % extent;
  for (Interval& interval : axis) {
    if (interval.begin >= shift) {
      interval = {interval.begin - shift, interval.end - shift};
    } else if (interval.end <= shift) {
      interval = {interval.begin + extent - shift, interval.end + extent - shift};
    } else {
      interval = {0, extent};
    }
  }
}

// Replaces intervals of `outputs` channels by the proportional intervals of `inputs` channels,
// rounded outwards.
void ScaleChannels(int64_t outputs, int64_t inputs, Parts& parts) {
  for (Interval& channels : parts.axes[kAxisC]) {
    channels = {channels.begin * inputs / outputs, CeilDivide(channels.end * inputs, outputs)};
  }
}

void NeedAttended(const Attention& attention, int input, const PlannedLayer& layer, Parts& parts) {
  const Shape& shape = layer.inputs[static_cast<size_t>(input)].shape;
  ScaleChannels(layer.output.c, shape.c, parts);
  if (input == 0) return;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t window = attention.window[axis];
    if (window == 0) {
      CoverAxis(parts.axes[kAxisD + axis], shape.extents[axis]);
      continue;
    }
    for (Interval& interval : parts.axes[kAxisD + axis]) {
      interval = {interval.begin / window * window, CeilDivide(interval.end, window) * window};
    }
  }
}

void NeedOpaque(const Opaque& op, const Shape& shape, Parts& parts) {
  if (shape.c % op.channel_parts == 0) {
    ScaleChannels(op.channels, shape.c, parts);
  } else {
    CoverAxis(parts.axes[kAxisC], shape.c);
  }
  const std::array<bool, kMaxSpatial> separate = {false, op.rows, op.columns};
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (separate[axis] && shape.extents[axis] == op.extents[axis]) continue;
    CoverAxis(parts.axes[kAxisD + axis], shape.extents[axis]);
  }
}

}  // namespace

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
  std::vector<Interval>& channels = parts.axes[kAxisC];
  for (size_t at = 0; degrees.r > 1 && at < channels.size(); ++at) {
    const Interval kept = Part(channels[at].Length(), degrees.r, static_cast<int>(at) % degrees.r);
    channels[at] = {channels[at].begin + kept.begin, channels[at].begin + kept.end};
  }
  return parts;
}

Parts ComputedParts(const Shape& output, const Degrees& degrees) {
  const TensorExtents extents = ExtentsOf(output);
  const std::array<int, kTensorAxes> counts = {degrees.n, degrees.c, 1, degrees.h, degrees.w};
  Parts parts;
  for (size_t axis = 0; axis < kTensorAxes; ++axis) {
    const int repeats = axis == kAxisC ? degrees.r : 1;
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
    SlideBack({convolution->window, convolution->stride, convolution->pad, convolution->dilation},
              shape, parts);
  } else if (const auto* transposed = std::get_if<TransposedConvolution>(&layer.op)) {
    GroupChannels(transposed->filters, transposed->groups, shape.c, parts);
    SlideOver({transposed->window, transposed->stride, transposed->pad, transposed->dilation},
              shape, parts);
  } else if (const auto* pooling = std::get_if<Pooling>(&layer.op)) {
    SlideBack({pooling->window, pooling->stride, pooling->pad, {1, 1, 1}}, shape, parts);
  } else if (std::holds_alternative<GlobalPooling>(layer.op)) {
    WholeImages(shape, parts);
  } else if (const auto* upsampling = std::get_if<Upsampling>(&layer.op)) {
    Shrink(*upsampling, shape, parts);
  } else if (const auto* padding = std::get_if<Padding>(&layer.op)) {
    Shift(parts.axes[kAxisC], padding->channels_before, shape.c);
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      Shift(parts.axes[kAxisD + axis], padding->before[axis], shape.extents[axis]);
    }
  } else if (const auto* roll = std::get_if<Roll>(&layer.op)) {
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      Unroll(parts.axes[kAxisD + axis], roll->shift[axis], shape.extents[axis]);
    }
  } else if (const auto* attention = std::get_if<Attention>(&layer.op)) {
    NeedAttended(*attention, input, layer, parts);
  } else if (const auto* opaque = std::get_if<Opaque>(&layer.op)) {
    NeedOpaque(*opaque, shape, parts);
  } else if (std::holds_alternative<Linear>(layer.op)) {
    CoverAxis(parts.axes[kAxisC], shape.c);
  } else if (std::holds_alternative<Multiply>(layer.op)) {
    // An input with one element along an axis (a gate) is needed at all positions of the axis.
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      if (shape.extents[axis] == 1) CoverAxis(parts.axes[kAxisD + axis], 1);
    }
  } else if (std::holds_alternative<FullyConnected>(layer.op)) {
    CoverAxis(parts.axes[kAxisC], shape.c);
    WholeImages(shape, parts);
  } else if (std::holds_alternative<Flatten>(layer.op) ||
             std::holds_alternative<Reshape>(layer.op)) {
    // A box of an output image needs elements that form no box of the input image. So each worker
    // needs whole images of the input, but only those channels that its output channels cover.
    const int64_t from = shape.Features() / shape.c;
    const int64_t to = layer.output.Features() / layer.output.c;
    ScaleChannels(from, to, parts);
    WholeImages(shape, parts);
  } else if (const auto* concat = std::get_if<Concat>(&layer.op)) {
    const size_t axis = kAxisC + static_cast<size_t>(concat->axis);
    int64_t offset = 0;
    for (int before = 0; before < input; ++before) {
      offset += ExtentsOf(layer.inputs[static_cast<size_t>(before)].shape)[axis];
    }
    Shift(parts.axes[axis], offset, ExtentsOf(shape)[axis]);
  } else if (const auto* norm = std::get_if<LocalResponseNormalization>(&layer.op)) {
    for (Interval& channels : parts.axes[kAxisC]) {
      channels = {std::max<int64_t>(0, channels.begin - norm->size / 2),
                  std::min<int64_t>(shape.c, channels.end + norm->size / 2)};
    }
  }
  if (degrees.r > 1) {
    std::vector<Interval>& channels = parts.axes[kAxisC];
    for (size_t at = 0; at < channels.size(); ++at) {
      channels[at] = SummedPart(layer, degrees, static_cast<int>(at) % degrees.r);
    }
  }
  return parts;
}

}  // namespace ucudnn::planner
