// Compares the volumes of transfers with element-by-element counts.
#include "planner/cost/transfer.h"

#include <gtest/gtest.h>

#include "planner/graph/networks.h"
#include "tests/unit/planner/layers_of.h"
#include "tests/unit/planner/made_machine.h"
#include "tests/unit/planner/one_by_one.h"
#include "tests/unit/planner/random_layers.h"

namespace ucudnn::planner {
namespace {

TEST(Transfer, VolumesAreThoseOfACountOneByOne) {
  const Machine machine =
      MadeMachine({{"inner", 3, 1, 0}, {"middle", 2, 1, 0}, {"outer", 2, 1, 0}});
  const unsigned seed = 20261121;
  RandomLayers random(seed);
  ConfigurationOptions options;
  options.uneven = true;
  options.placements = true;
  options.reduction = true;
  TrafficCounter counter(machine);
  int boxes = 0;
  int moved = 0;
  int from_sums = 0;
  int to_sums = 0;
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
    from_sums += counted.moved > 0 && from.degrees.r > 1;
    to_sums += counted.moved > 0 && to.degrees.r > 1;
  }
  EXPECT_GT(moved, 1'000);
  EXPECT_GT(from_sums, 100);
  EXPECT_GT(to_sums, 100);
}

Traffic Between(const Machine& machine, const PlannedLayer& layer, const Degrees& from,
                const Degrees& to) {
  TrafficCounter counter(machine);
  return counter.Count(OutputParts(layer.inputs[0].shape, from), 0, NeededParts(layer, 0, to), 0);
}

// In DeePa's Table 3, a change from n=16 to other degrees moves 15/16 of the input, and halos.
TEST(Transfer, ResidentElementsAreCredited) {
  const LayerGraph vgg = *BuildLayerGraph(*BuildNetwork("vgg16"), 512);
  const PlannedLayer& layer = LayerOf(vgg, "conv5_1");
  const Machine machine = MadeMachine({{"bus", 16, 1, 0}});
  const int64_t input = int64_t{512} * 512 * 14 * 14;
  for (const Degrees& to : {Degrees{8}, Degrees{4}, Degrees{2}, Degrees{1}}) {
    EXPECT_EQ(Between(machine, layer, {16}, to).moved, input * 15 / 16);
  }
  EXPECT_EQ(Between(machine, layer, {16}, {16}).moved, 0);
  // With a halo of one row and one column, each of 2 x 2 workers needs 8 x 8 of the 14 x 14
  // positions.
  const int64_t needed = int64_t{4} * 512 * 512 * 8 * 8;
  const int64_t resident = int64_t{4} * 32 * 512 * 8 * 8;
  EXPECT_EQ(Between(machine, layer, {16}, {1, 1, 2, 2}).moved, needed - resident);
}

// VGG-16's fully connected layers are on two of four devices, as in appendix A.3 of DeePa.
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
