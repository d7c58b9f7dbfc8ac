#include "tests/unit/planner/one_by_one.h"

#include <algorithm>
#include <array>
#include <map>

#include "planner/cost/partition.h"

namespace ucudnn::planner {
namespace {

using Index = std::array<int, kTensorAxes>;
using Loads = std::map<std::pair<size_t, int>, int64_t>;  // number of elements, by level and port

std::array<int, kTensorAxes> Extents(const Shape& shape) {
  return {shape.n, shape.c, shape.extents[0], shape.extents[1], shape.extents[2]};
}

template <typename Visit>
void ForEach(const std::array<int, kTensorAxes>& extents, const Visit& visit) {
  Index i;
  for (i[0] = 0; i[0] < extents[0]; ++i[0]) {
    for (i[1] = 0; i[1] < extents[1]; ++i[1]) {
      for (i[2] = 0; i[2] < extents[2]; ++i[2]) {
        for (i[3] = 0; i[3] < extents[3]; ++i[3]) {
          for (i[4] = 0; i[4] < extents[4]; ++i[4]) visit(i);
        }
      }
    }
  }
}

// Returns the number of the part with element `at`. The first extent % parts parts have one element
// more than the others.
int PartOf(int at, int extent, int parts) {
  int part = 0;
  int end = extent / parts + (extent % parts > 0 ? 1 : 0);
  while (at >= end) {
    ++part;
    end += extent / parts + (part < extent % parts ? 1 : 0);
  }
  return part;
}

// Returns the worker that computes, for output element `at`, the partial sum over part `sum` of the
// input channels.
int WorkerOf(const Index& at, const Shape& shape, const Degrees& degrees, int sum) {
  const int n = PartOf(at[0], shape.n, degrees.n);
  const int c = PartOf(at[1], shape.c, degrees.c);
  const int h = PartOf(at[3], shape.extents[1], degrees.h);
  const int w = PartOf(at[4], shape.extents[2], degrees.w);
  return (((n * degrees.c + c) * degrees.r + sum) * degrees.h + h) * degrees.w + w;
}

// Returns the worker that adds up the partial sums of element `at`. Of the r workers that compute
// partial sums of the same channels, each adds up an r-th of these channels.
int KeeperOf(const Index& at, const Shape& shape, const Degrees& degrees) {
  const int part = PartOf(at[1], shape.c, degrees.c);
  int before = 0;
  int channels = 0;
  for (int c = 0; c < shape.c; ++c) {
    before += PartOf(c, shape.c, degrees.c) < part;
    channels += PartOf(c, shape.c, degrees.c) == part;
  }
  return WorkerOf(at, shape, degrees, PartOf(at[1] - before, channels, degrees.r));
}

// Returns the half-open range from the first to the last pixel that output `at` reads along an
// axis, without padding.
std::array<int, 2> Taps(int at, int window, int stride, int pad, int dilation, int image) {
  const int begin = at * stride - pad;
  return {std::max(0, begin), std::min(image, begin + (window - 1) * dilation + 1)};
}

// Returns, for each axis, the half-open range of the elements of input `input` that output element
// `out` reads.
std::array<std::array<int, 2>, kTensorAxes> Reads(const PlannedLayer& layer, int input,
                                                  const Index& out) {
  const Shape& shape = layer.inputs[static_cast<size_t>(input)].shape;
  const std::array<int, kTensorAxes> all = Extents(shape);
  std::array<std::array<int, 2>, kTensorAxes> range;
  for (size_t axis = 0; axis < kTensorAxes; ++axis) range[axis] = {out[axis], out[axis] + 1};
  const auto whole_from = [&](size_t first) {
    for (size_t axis = first; axis < kTensorAxes; ++axis) range[axis] = {0, all[axis]};
  };
  if (const auto* conv = std::get_if<Convolution>(&layer.op)) {
    const int group = out[1] / (conv->filters / conv->groups);
    const int channels = shape.c / conv->groups;
    range[1] = {group * channels, (group + 1) * channels};
    for (size_t axis = 0; axis < 3; ++axis) {
      range[2 + axis] = Taps(out[2 + axis], conv->window[axis], conv->stride[axis], conv->pad[axis],
                             conv->dilation[axis], all[2 + axis]);
    }
  } else if (const auto* up = std::get_if<TransposedConvolution>(&layer.op)) {
    const int group = out[1] / (up->filters / up->groups);
    const int channels = shape.c / up->groups;
    range[1] = {group * channels, (group + 1) * channels};
    for (size_t axis = 0; axis < 3; ++axis) {  // the inputs whose windows include `out`
      range[2 + axis] = {all[2 + axis], 0};
      for (int at = 0; at < all[2 + axis]; ++at) {
        const int begin = at * up->stride[axis] - up->pad[axis];
        const int end = begin + (up->window[axis] - 1) * up->dilation[axis] + 1;
        if (out[2 + axis] < begin || out[2 + axis] >= end) continue;
        range[2 + axis] = {std::min(range[2 + axis][0], at), at + 1};
      }
    }
  } else if (const auto* larger = std::get_if<Upsampling>(&layer.op)) {
    for (size_t axis = 0; axis < 3; ++axis) {
      const int at = out[2 + axis] / larger->factor[axis];
      range[2 + axis] = {at, at + 1};
    }
  } else if (const auto* padded = std::get_if<Padding>(&layer.op)) {
    for (size_t axis = 0; axis < 3; ++axis) {
      const int at = out[2 + axis] - padded->before[axis];
      range[2 + axis] = {std::max(0, at), std::min(all[2 + axis], at + 1)};
    }
  } else if (std::holds_alternative<Multiply>(layer.op)) {
    for (size_t axis = 2; axis < kTensorAxes; ++axis) {
      if (all[axis] == 1) range[axis] = {0, 1};
    }
  } else if (const auto* pool = std::get_if<Pooling>(&layer.op)) {
    for (size_t axis = 0; axis < 3; ++axis) {
      range[2 + axis] = Taps(out[2 + axis], pool->window[axis], pool->stride[axis], pool->pad[axis],
                             1, all[2 + axis]);
    }
  } else if (std::holds_alternative<GlobalPooling>(layer.op)) {
    whole_from(2);
  } else if (std::holds_alternative<FullyConnected>(layer.op)) {
    whole_from(1);
  } else if (std::holds_alternative<Flatten>(layer.op)) {
    const int image = all[2] * all[3] * all[4];
    range[1] = {out[1] / image, out[1] / image + 1};
    range[2] = {out[1] % image / (all[3] * all[4]), out[1] % image / (all[3] * all[4]) + 1};
    range[3] = {out[1] / all[4] % all[3], out[1] / all[4] % all[3] + 1};
    range[4] = {out[1] % all[4], out[1] % all[4] + 1};
  } else if (std::holds_alternative<Reshape>(layer.op)) {  // complete channels, see partition.cpp
    const int from = all[2] * all[3] * all[4];
    const int to = layer.output.extents[0] * layer.output.extents[1] * layer.output.extents[2];
    range[1] = {out[1] * to / from, ((out[1] + 1) * to - 1) / from + 1};
    whole_from(2);
  } else if (std::holds_alternative<Concat>(layer.op)) {
    int offset = 0;
    for (int i = 0; i < input; ++i) offset += layer.inputs[static_cast<size_t>(i)].shape.c;
    range[1] = {out[1] - offset, out[1] - offset + 1};
    if (range[1][0] < 0 || range[1][0] >= shape.c) range[1] = {0, 0};
  } else if (const auto* norm = std::get_if<LocalResponseNormalization>(&layer.op)) {
    range[1] = {std::max(0, out[1] - norm->size / 2),
                std::min(all[1], out[1] + norm->size / 2 + 1)};
  }
  return range;
}

// The smallest box around all input elements that a worker reads: for each axis, begin and end.
using Hull = std::array<std::array<int, 2>, kTensorAxes>;
std::vector<Hull> NeededHulls(const PlannedLayer& layer, int input, const Degrees& degrees) {
  std::vector<Hull> hulls(static_cast<size_t>(degrees.Workers()));
  for (Hull& hull : hulls) hull.fill({1 << 30, 0});
  ForEach(Extents(layer.output), [&](const Index& out) {
    auto reads = Reads(layer, input, out);
    const bool none = std::any_of(reads.begin(), reads.end(),
                                  [](const auto& range) { return range[0] >= range[1]; });
    if (none) return;
    const auto [first, end] = reads[1];
    for (int channel = first; channel < end; ++channel) {
      const int sum = degrees.r > 1 ? PartOf(channel, layer.inputs.front().shape.c, degrees.r) : 0;
      Hull& hull = hulls[static_cast<size_t>(WorkerOf(out, layer.output, degrees, sum))];
      reads[1] = {channel, channel + 1};
      for (size_t axis = 0; axis < kTensorAxes; ++axis) {
        hull[axis][0] = std::min(hull[axis][0], reads[axis][0]);
        hull[axis][1] = std::max(hull[axis][1], reads[axis][1]);
      }
    }
  });
  return hulls;
}

// Adds 1 to each port through which an element moves from device `from` to device `to`.
void Carry(const Machine& machine, int from, int to, Loads& in, Loads& out) {
  for (size_t level = 0; level < machine.levels.size(); ++level) {
    const int size = machine.PortDevices(static_cast<int>(level));
    if (from / size == to / size) continue;
    ++in[{level, to / size}];
    ++out[{level, from / size}];
  }
}

Counted Summary(const Machine& machine, const Loads& in, const Loads& out) {
  Counted counted;
  counted.busiest.resize(machine.levels.size());
  for (const Loads& loads : {in, out}) {
    for (const auto& [port, elements] : loads) {
      counted.busiest[port.first] = std::max(counted.busiest[port.first], elements);
    }
  }
  for (const auto& [port, elements] : in) {
    if (port.first > 0) continue;
    counted.moved += elements;
    counted.most_received = std::max(counted.most_received, elements);
  }
  return counted;
}

}  // namespace

Counted CountOneByOne(const Machine& machine, const PlannedLayer& layer, int input,
                      const ParallelConfiguration& from, const ParallelConfiguration& to) {
  const Shape& shape = layer.inputs[static_cast<size_t>(input)].shape;
  Loads in;
  Loads out;
  const std::vector<Hull> hulls = NeededHulls(layer, input, to.degrees);
  for (size_t worker = 0; worker < hulls.size(); ++worker) {
    ForEach(Extents(shape), [&](const Index& at) {
      for (size_t axis = 0; axis < kTensorAxes; ++axis) {
        if (at[axis] < hulls[worker][axis][0] || at[axis] >= hulls[worker][axis][1]) return;
      }
      Carry(machine, from.first_device + KeeperOf(at, shape, from.degrees),
            to.first_device + static_cast<int>(worker), in, out);
    });
  }
  return Summary(machine, in, out);
}

Counted CountPartialSums(const Machine& machine, const PlannedLayer& layer,
                         const ParallelConfiguration& configuration) {
  const Degrees& degrees = configuration.degrees;
  const int first = configuration.first_device;
  Loads in;
  Loads out;
  ForEach(Extents(layer.output), [&](const Index& at) {
    for (int sum = 0; sum < degrees.r; ++sum) {
      Carry(machine, first + WorkerOf(at, layer.output, degrees, sum),
            first + KeeperOf(at, layer.output, degrees), in, out);
    }
  });
  return Summary(machine, in, out);
}

}  // namespace ucudnn::planner
