#include "planner/cost/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <utility>

#include "planner/graph/networks.h"
#include "tests/unit/planner/layers_of.h"

namespace ucudnn::planner {
namespace {

using ::testing::ElementsAre;

TEST(LayerGraph, ElementwiseOperatorsFollowTheirLayer) {
  const LayerGraph alexnet = Network("alexnet", 512);
  std::vector<std::string> names;
  for (const PlannedLayer& layer : alexnet.layers) names.push_back(layer.name);
  EXPECT_THAT(names, ElementsAre("conv1", "pool1", "conv2", "pool2", "conv3", "conv4", "conv5",
                                 "pool5", "fc6", "fc7", "fc8"));
  EXPECT_THAT(LayerOf(alexnet, "fc6").followers, ElementsAre("relu6", "drop6"));
  EXPECT_THAT(LayerOf(alexnet, "fc8").followers, ElementsAre("prob"));
  EXPECT_EQ(alexnet.layers[0].inputs[0].producer, kData);
  EXPECT_EQ(LayerOf(alexnet, "fc6").inputs[0].producer, alexnet.Find("pool5"));
  EXPECT_EQ(LayerOf(alexnet, "fc6").weights, int64_t{9216} * 4096);
  EXPECT_EQ(LayerOf(alexnet, "fc6").parameters, int64_t{9216} * 4096 + 4096);
}

TEST(LayerGraph, ParametersOfFollowersAreKept) {
  for (const std::string& name : NetworkNames()) {
    const LayerGraph graph = Network(name, 2);
    int64_t parameters = 0;
    for (const PlannedLayer& layer : graph.layers) parameters += layer.parameters;
    EXPECT_EQ(parameters, *ParameterCount(*BuildNetwork(name))) << name;
  }
}

TEST(LayerGraph, OperationsAreTwoAMultiplyAdd) {
  const LayerGraph alexnet = Network("alexnet", 512);
  EXPECT_EQ(ForwardOperations(LayerOf(alexnet, "fc6")), 2.0 * 512 * 9216 * 4096);
  EXPECT_EQ(ForwardOperations(LayerOf(alexnet, "conv2")), 2.0 * 512 * 192 * 27 * 27 * 64 * 25);
  EXPECT_EQ(ForwardOperations(LayerOf(alexnet, "pool1")), 0);
  const LayerGraph caffe = Network("alexnet-caffe", 1);
  EXPECT_EQ(ForwardOperations(LayerOf(caffe, "conv2")), 2.0 * 256 * 27 * 27 * 48 * 25);
}

TEST(LayerGraph, ANetworkWithoutLayersIsRefused) {
  GraphBuilder builder("empty");
  builder.Add("data", Input{}, {});
  EXPECT_EQ(BuildLayerGraph(*builder.Build(), 1).message(),
            "'empty' has no layers; expected at least one");
  EXPECT_FALSE(BuildLayerGraph(*BuildNetwork("alexnet"), 0).ok());
}

// Counts the legal tuples of degrees up to `devices` by trying all tuples. `whole` is the number of
// attention heads, which c must divide, or 0 for a layer that is no attention.
size_t CountLegal(const Shape& output, int devices, bool uneven, int whole) {
  size_t count = 0;
  const auto divides = [&](int parts, int extent) {
    return uneven ? parts <= extent : extent % parts == 0;
  };
  for (int n = 1; n <= devices; ++n) {
    for (int c = 1; c <= devices; ++c) {
      for (int h = 1; h <= devices; ++h) {
        for (int w = 1; w <= devices; ++w) {
          count += n * c * h * w <= devices && devices % (n * c * h * w) == 0 &&
                   divides(n, output.n) && (whole > 0 ? whole % c == 0 : divides(c, output.c)) &&
                   divides(h, output.extents[1]) && divides(w, output.extents[2]);
        }
      }
    }
  }
  return count;
}

TEST(Configurations, AreAllThatDivideTheOutput) {
  for (const std::string& name : NetworkNames()) {
    const LayerGraph graph = Network(name, 48);
    for (const int devices : {2, 6, 8, 16}) {
      for (const bool uneven : {false, true}) {
        ConfigurationOptions options;
        options.uneven = uneven;
        // Deep networks repeat shapes often, so CountLegal runs once for each shape.
        std::map<std::pair<std::string, int>, size_t> legal;
        for (const PlannedLayer& layer : graph.layers) {
          const auto configurations = LegalConfigurations(layer, devices, options);
          const auto* const attention = std::get_if<Attention>(&layer.op);
          const int whole = attention ? attention->heads : 0;
          const auto [known, added] = legal.try_emplace({Describe(layer.output), whole});
          if (added) known->second = CountLegal(layer.output, devices, uneven, whole);
          EXPECT_EQ(configurations.size(), known->second)
              << name << " " << layer.name << " " << devices << " devices";
          for (const ParallelConfiguration& configuration : configurations) {
            EXPECT_EQ(configuration.first_device, 0);
          }
        }
      }
    }
  }
}

TEST(Configurations, SixteenDevicesHaveSeventyOfALargeImage) {
  const LayerGraph vgg = Network("vgg16", 512);
  EXPECT_EQ(LegalConfigurations(LayerOf(vgg, "conv1_1"), 16, {}).size(), 70u);
  const auto connected = LegalConfigurations(LayerOf(vgg, "fc6"), 16, {});
  ASSERT_EQ(connected.size(), 15u);
  EXPECT_EQ(Describe(connected[0].degrees), "{n=16, c=1, h=1, w=1}");
  EXPECT_EQ(Describe(connected[1].degrees), "{n=8, c=2, h=1, w=1}");
  EXPECT_EQ(connected[14].degrees, Degrees{});
  // conv1 has 55 rows, which 2 does not divide; `uneven` allows such degrees.
  const LayerGraph alexnet = Network("alexnet", 512);
  EXPECT_EQ(LegalConfigurations(LayerOf(alexnet, "conv1"), 16, {}).size(), 15u);
  ConfigurationOptions uneven;
  uneven.uneven = true;
  EXPECT_EQ(LegalConfigurations(LayerOf(alexnet, "conv1"), 16, uneven).size(), 70u);
}

TEST(Configurations, PlacementsTileTheMachine) {
  ConfigurationOptions options;
  options.placements = true;
  const LayerGraph vgg = Network("vgg16", 512);
  const auto configurations = LegalConfigurations(LayerOf(vgg, "conv1_1"), 16, options);
  EXPECT_EQ(configurations.size(), 35u + 2 * 20 + 4 * 10 + 8 * 4 + 16 * 1);
  for (const ParallelConfiguration& configuration : configurations) {
    EXPECT_EQ(configuration.first_device % configuration.degrees.Workers(), 0);
    EXPECT_LE(configuration.first_device + configuration.degrees.Workers(), 16);
  }
}

TEST(Configurations, PinsLeaveOneChoice) {
  const LayerGraph alexnet = Network("alexnet", 512);
  ConfigurationOptions options;
  options.pins = {*ParsePin("fc6=c4"), *ParsePin("conv2=n2c8")};
  const auto configurations = LegalConfigurations(alexnet, 16, options);
  ASSERT_TRUE(configurations.ok()) << configurations.message();
  const auto& pinned = (*configurations)[static_cast<size_t>(alexnet.Find("fc6"))];
  ASSERT_EQ(pinned.size(), 1u);
  EXPECT_EQ(pinned[0].degrees, (Degrees{1, 4, 1, 1}));
  EXPECT_EQ((*configurations)[static_cast<size_t>(alexnet.Find("fc7"))].size(), 15u);
}

TEST(Configurations, WrongPinsAreNamed) {
  const LayerGraph alexnet = Network("alexnet", 512);
  const auto with = [&](const char* pin) {
    ConfigurationOptions options;
    options.pins = {*ParsePin(pin)};
    return LegalConfigurations(alexnet, 16, options).message();
  };
  EXPECT_EQ(with("fc9=c4"), "pin 'fc9' {n=1, c=4, h=1, w=1}: 'alexnet' has no such layer");
  EXPECT_EQ(with("fc6=c3"),
            "pin 'fc6' {n=1, c=3, h=1, w=1}: its output 512x4096x1x1 cannot be divided so on 16 "
            "devices");
  EXPECT_EQ(with("fc6=h2"),
            "pin 'fc6' {n=1, c=1, h=2, w=1}: its output 512x4096x1x1 cannot be divided so on 16 "
            "devices");
  for (const char* wrong : {"", "fc6", "fc6=", "=c4", "fc6=4", "fc6=c", "fc6=c0", "fc6=c-2",
                            "fc6=d2", "fc6=c2c2", "fc6=c99999999999"}) {
    EXPECT_FALSE(ParsePin(wrong).ok()) << wrong;
  }
  EXPECT_EQ(ParsePin("fc6").message(),
            "pin 'fc6'; expected a layer and its degrees, as fc6=c4 or conv1=n4h2w2");
}

}  // namespace
}  // namespace ucudnn::planner
