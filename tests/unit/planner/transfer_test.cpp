// Volumes against a count of elements one by one: which output elements a worker computes, which
// input elements those read, who holds them.
#include "planner/cost/transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "planner/graph/networks.h"
#include "tests/unit/planner/made_machine.h"

namespace ucudnn::planner {
namespace {

using Index = std::array<int, kTensorAxes>;

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

// The part that holds element `at`: the first parts have one element more.
int PartOf(int at, int extent, int parts) {
  int part = 0;
  int end = extent / parts + (extent % parts > 0 ? 1 : 0);
  while (at >= end) {
    ++part;
    end += extent / parts + (part < extent % parts ? 1 : 0);
  }
  return part;
}

int WorkerOf(const Index& at, const Shape& shape, const Degrees& degrees) {
  const int n = PartOf(at[0], shape.n, degrees.n);
  const int c = PartOf(at[1], shape.c, degrees.c);
  const int h = PartOf(at[3], shape.extents[1], degrees.h);
  const int w = PartOf(at[4], shape.extents[2], degrees.w);
  return ((n * degrees.c + c) * degrees.h + h) * degrees.w + w;
}

// The elements between the first and the last tap over output `at`, cut to the image.
std::array<int, 2> Taps(int at, int window, int stride, int pad, int dilation, int image) {
  const int begin = at * stride - pad;
  return {std::max(0, begin), std::min(image, begin + (window - 1) * dilation + 1)};
}

// Per axis, the half-open range of input `input` that output element `out` reads.
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
    for (size_t axis = 0; axis < 3; ++axis) {  // of every input element, whether its window is over
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

// The smallest boxes around what each worker's output elements read, as [axis][begin, end).
using Hull = std::array<std::array<int, 2>, kTensorAxes>;
std::vector<Hull> NeededHulls(const PlannedLayer& layer, int input, const Degrees& degrees) {
  std::vector<Hull> hulls(static_cast<size_t>(degrees.Workers()));
  for (Hull& hull : hulls) hull.fill({1 << 30, 0});
  ForEach(Extents(layer.output), [&](const Index& out) {
    const auto reads = Reads(layer, input, out);
    const bool none = std::any_of(reads.begin(), reads.end(),
                                  [](const auto& range) { return range[0] >= range[1]; });
    if (none) return;
    Hull& hull = hulls[static_cast<size_t>(WorkerOf(out, layer.output, degrees))];
    for (size_t axis = 0; axis < kTensorAxes; ++axis) {
      hull[axis][0] = std::min(hull[axis][0], reads[axis][0]);
      hull[axis][1] = std::max(hull[axis][1], reads[axis][1]);
    }
  });
  return hulls;
}

struct Counted {
  int64_t moved = 0;
  int64_t most_received = 0;
  std::vector<int64_t> busiest;
};

Counted CountOneByOne(const Machine& machine, const PlannedLayer& layer, int input,
                      const ParallelConfiguration& from, const ParallelConfiguration& to) {
  const Shape& shape = layer.inputs[static_cast<size_t>(input)].shape;
  std::map<std::pair<size_t, int>, int64_t> in;  // by level and port
  std::map<std::pair<size_t, int>, int64_t> out;
  Counted counted;
  const std::vector<Hull> hulls = NeededHulls(layer, input, to.degrees);
  for (size_t worker = 0; worker < hulls.size(); ++worker) {
    const int device = to.first_device + static_cast<int>(worker);
    int64_t received = 0;
    ForEach(Extents(shape), [&](const Index& at) {
      for (size_t axis = 0; axis < kTensorAxes; ++axis) {
        if (at[axis] < hulls[worker][axis][0] || at[axis] >= hulls[worker][axis][1]) return;
      }
      const int holder = from.first_device + WorkerOf(at, shape, from.degrees);
      if (holder == device) return;
      ++received;
      for (size_t level = 0; level < machine.levels.size(); ++level) {
        const int size = machine.PortDevices(static_cast<int>(level));
        if (holder / size == device / size) continue;
        ++in[{level, device / size}];
        ++out[{level, holder / size}];
      }
    });
    counted.moved += received;
    counted.most_received = std::max(counted.most_received, received);
  }
  counted.busiest.resize(machine.levels.size());
  for (const auto& loads : {in, out}) {
    for (const auto& [port, elements] : loads) {
      counted.busiest[port.first] = std::max(counted.busiest[port.first], elements);
    }
  }
  return counted;
}

class RandomLayers {
 public:
  explicit RandomLayers(unsigned seed) : random_(seed) {}

  int Draw(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  // A network whose last layer reads what the layers before it put out.
  LayerGraph Next() {
    for (;;) {
      GraphBuilder builder("random");
      const bool deep = Draw(0, 4) == 0;
      const Spatial extents = {deep ? Draw(1, 3) : 1, Draw(1, 7), Draw(1, 7)};
      const auto data = [&](const std::string& name) {
        const NodeId node = builder.Add(name, Input{Draw(1, 6), extents, deep ? 3 : 2}, {});
        return builder.Add(name + "_copy", LocalResponseNormalization{1}, {node});
      };
      const NodeId first = data("a");
      const Spatial depth_only = {deep ? Draw(1, 2) : 1, Draw(1, 4), Draw(1, 4)};
      const Spatial stride = {1, Draw(1, 3), Draw(1, 3)};
      const Spatial pad = {0, Draw(0, 3), Draw(0, 3)};
      switch (Draw(0, 11)) {
        case 0:
        case 1:
        case 2: {
          Convolution layer;
          layer.groups = Draw(1, 3);
          layer.filters = layer.groups * Draw(1, 3);
          layer.window = depth_only;
          layer.stride = stride;
          layer.pad = pad;
          layer.dilation = {1, Draw(1, 2), Draw(1, 2)};
          builder.Add("layer", layer, {first});
          break;
        }
        case 3: {
          Pooling layer;
          layer.window = depth_only;
          layer.stride = stride;
          layer.pad = {0, std::min(pad[1], depth_only[1] - 1), std::min(pad[2], depth_only[2] - 1)};
          layer.round_up = Draw(0, 1) == 1;
          builder.Add("layer", layer, {first});
          break;
        }
        case 8: {
          TransposedConvolution layer;
          layer.groups = Draw(1, 2);
          layer.filters = layer.groups * Draw(1, 3);
          layer.window = {1, Draw(1, 4), Draw(1, 4)};
          layer.stride = stride;
          layer.pad = {0, Draw(0, 1), Draw(0, 1)};
          layer.dilation = {1, Draw(1, 2), Draw(1, 2)};
          builder.Add("layer", layer, {first});
          break;
        }
        case 9:
          builder.Add("layer", Upsampling{{1, Draw(1, 3), Draw(1, 3)}}, {first});
          break;
        case 10:
          builder.Add("layer",
                      Padding{{0, Draw(-1, 2), Draw(-1, 2)}, {0, Draw(-1, 2), Draw(-1, 2)}},
                      {first});
          break;
        case 11:
          builder.Add("layer", Multiply{}, {first, builder.Add("gate", GlobalPooling{}, {first})});
          break;
        case 4:
          builder.Add("layer", GlobalPooling{}, {first});
          break;
        case 5:
          if (Draw(0, 1) == 0) {
            builder.Add("layer", FullyConnected{Draw(1, 6), true}, {first});
          } else {
            builder.Add("layer", Flatten{}, {first});
          }
          break;
        case 6:
          builder.Add("layer", LocalResponseNormalization{Draw(1, 2) * 2 + 1}, {first});
          break;
        default:
          builder.Add("layer", Concat{}, {first, data("b"), data("c")});
          break;
      }
      const auto graph = builder.Build();
      if (!graph.ok()) continue;
      const auto layers = BuildLayerGraph(*graph, Draw(1, 4));
      if (layers.ok()) return *layers;
    }
  }

 private:
  std::mt19937 random_;
};

TEST(Transfer, VolumesAreThoseOfACountOneByOne) {
  const Machine machine =
      MadeMachine({{"inner", 3, 1, 0}, {"middle", 2, 1, 0}, {"outer", 2, 1, 0}});
  const unsigned seed = 20261121;
  RandomLayers random(seed);
  ConfigurationOptions options;
  options.uneven = true;
  options.placements = true;
  TrafficCounter counter(machine);
  int boxes = 0;
  int moved = 0;
  while (boxes < 15'000) {
    const LayerGraph graph = random.Next();
    const int position = graph.Find("layer");
    const PlannedLayer& layer = graph.layers[static_cast<size_t>(position)];
    const int input = random.Draw(0, static_cast<int>(layer.inputs.size()) - 1);
    const int producer = layer.inputs[static_cast<size_t>(input)].producer;
    const auto sources =
        LegalConfigurations(graph.layers[static_cast<size_t>(producer)], 12, options);
    const auto targets = LegalConfigurations(layer, 12, options);
    const auto& from =
        sources[static_cast<size_t>(random.Draw(0, static_cast<int>(sources.size()) - 1))];
    const auto& to =
        targets[static_cast<size_t>(random.Draw(0, static_cast<int>(targets.size()) - 1))];
    const Traffic& traffic =
        counter.Count(OutputParts(layer.inputs[static_cast<size_t>(input)].shape, from.degrees),
                      from.first_device, NeededParts(layer, input, to.degrees), to.first_device);
    const Counted counted = CountOneByOne(machine, layer, input, from, to);
    ASSERT_TRUE(traffic.moved == counted.moved && traffic.most_received == counted.most_received &&
                traffic.busiest == counted.busiest)
        << "seed " << seed << " after " << boxes << " boxes: operator " << layer.op.index() << " "
        << Describe(layer.inputs[static_cast<size_t>(input)].shape) << " " << Describe(from.degrees)
        << " from device " << from.first_device << " -> " << Describe(layer.output) << " "
        << Describe(to.degrees) << " from device " << to.first_device << ": moved " << traffic.moved
        << ", counted " << counted.moved;
    boxes += to.degrees.Workers();
    moved += counted.moved > 0;
  }
  EXPECT_GT(moved, 1'000);
}

const PlannedLayer& LayerOf(const LayerGraph& graph, const std::string& name) {
  return graph.layers[static_cast<size_t>(graph.Find(name))];
}

Traffic Between(const Machine& machine, const PlannedLayer& layer, const Degrees& from,
                const Degrees& to) {
  TrafficCounter counter(machine);
  return counter.Count(OutputParts(layer.inputs[0].shape, from), 0, NeededParts(layer, 0, to), 0);
}

// DeePa, Table 3: from n=16 every target moves 15/16 of the input, but for halos.
TEST(Transfer, ResidentElementsAreCredited) {
  const LayerGraph vgg = *BuildLayerGraph(*BuildNetwork("vgg16"), 512);
  const PlannedLayer& layer = LayerOf(vgg, "conv5_1");
  const Machine machine = MadeMachine({{"bus", 16, 1, 0}});
  const int64_t input = int64_t{512} * 512 * 14 * 14;
  for (const Degrees& to : {Degrees{8}, Degrees{4}, Degrees{2}, Degrees{1}}) {
    EXPECT_EQ(Between(machine, layer, {16}, to).moved, input * 15 / 16);
  }
  EXPECT_EQ(Between(machine, layer, {16}, {16}).moved, 0);
  // With a halo of one row and column, each of 2 x 2 workers needs 8 x 8 of 14 x 14.
  const int64_t needed = int64_t{4} * 512 * 512 * 8 * 8;
  const int64_t resident = int64_t{4} * 32 * 512 * 8 * 8;
  EXPECT_EQ(Between(machine, layer, {16}, {1, 1, 2, 2}).moved, needed - resident);
}

// DeePa, appendix A.3: fully connected layers of VGG-16 on two of four devices.
TEST(Transfer, ModelParallelLayersReceiveWhatTheyLack) {
  const LayerGraph vgg = *BuildLayerGraph(*BuildNetwork("vgg16"), 128);
  const Machine machine = MadeMachine({{"bus", 4, 1, 0}});
  EXPECT_EQ(Between(machine, LayerOf(vgg, "fc6"), {4}, {1, 2}).moved,
            int64_t{2} * 128 * 25088 * 3 / 4);
  EXPECT_EQ(Between(machine, LayerOf(vgg, "fc7"), {1, 2}, {1, 2}).moved,
            int64_t{2} * 128 * 4096 / 2);
}

TEST(Transfer, TheBusiestPortAndOneLatencyDecide) {
  const Machine machine = MadeMachine({{"inner", 2, 10, 5}, {"outer", 2, 4, 20}});
  EXPECT_DOUBLE_EQ(TransferMs(machine, {0, 0, {0, 0}}, 4), 0);
  EXPECT_DOUBLE_EQ(TransferMs(machine, {0, 0, {5'000'000, 0}}, 4), 2 + 0.005);
  EXPECT_DOUBLE_EQ(TransferMs(machine, {0, 0, {5'000'000, 3'000'000}}, 4), 3 + 0.02);
}

}  // namespace
}  // namespace ucudnn::planner
