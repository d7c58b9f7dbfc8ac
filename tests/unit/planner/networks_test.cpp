#include "planner/graph/networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/graph/layers.h"
#include "planner/graph/shapes.h"

namespace ucudnn::planner {
namespace {

using ::testing::ElementsAre;

// Every convolution of `network` at batch `n`, in words.
std::vector<std::string> Convolutions(const std::string& network, int n) {
  const auto graph = BuildNetwork(network);
  EXPECT_TRUE(graph.ok()) << graph.message();
  const auto layers = ConvolutionLayers(*graph, n, {Operation::kForward});
  EXPECT_TRUE(layers.ok()) << layers.message();
  std::vector<std::string> texts;
  for (const Layer& layer : *layers) texts.push_back(layer.name + " " + Describe(layer.problem));
  return texts;
}

std::string ShapeOf(const std::string& network, const std::string& node) {
  const auto graph = BuildNetwork(network);
  const auto shapes = InferShapes(*graph, 2);
  const Node* found = graph->Find(node);
  EXPECT_NE(found, nullptr) << node;
  return found == nullptr ? ""
                          : Describe((*shapes)[static_cast<size_t>(found - graph->nodes.data())]);
}

struct Published {
  const char* network;
  int64_t parameters;
};

class NetworkParameters : public ::testing::TestWithParam<Published> {};

TEST_P(NetworkParameters, AreAsPublished) {
  const auto graph = BuildNetwork(GetParam().network);
  ASSERT_TRUE(graph.ok()) << graph.message();
  EXPECT_EQ(*ParameterCount(*graph), GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(Networks, NetworkParameters,
                         ::testing::Values(Published{"alexnet", 61'100'840},
                                           Published{"alexnet-caffe", 60'965'224},
                                           Published{"vgg16", 138'357'544},
                                           Published{"resnet18", 11'689'512}));

TEST(Networks, AlexNet) {
  EXPECT_THAT(Convolutions("alexnet", 256),
              ElementsAre("conv1 forward 256x3x224x224 -> 64, 11x11 pad 2x2 stride 4x4 fp32 nchw",
                          "conv2 forward 256x64x27x27 -> 192, 5x5 pad 2x2 fp32 nchw",
                          "conv3 forward 256x192x13x13 -> 384, 3x3 pad 1x1 fp32 nchw",
                          "conv4 forward 256x384x13x13 -> 256, 3x3 pad 1x1 fp32 nchw",
                          "conv5 forward 256x256x13x13 -> 256, 3x3 pad 1x1 fp32 nchw"));
  EXPECT_EQ(ShapeOf("alexnet", "pool5"), "2x256x6x6");
  EXPECT_EQ(ShapeOf("alexnet", "fc6"), "2x4096x1x1");
  EXPECT_EQ(ShapeOf("alexnet", "fc8"), "2x1000x1x1");
}

TEST(Networks, AlexNetCaffe) {
  EXPECT_THAT(Convolutions("alexnet-caffe", 256),
              ElementsAre("conv1 forward 256x3x227x227 -> 96, 11x11 pad 0x0 stride 4x4 fp32 nchw",
                          "conv2 forward 256x96x27x27 -> 256, 5x5 pad 2x2 groups 2 fp32 nchw",
                          "conv3 forward 256x256x13x13 -> 384, 3x3 pad 1x1 fp32 nchw",
                          "conv4 forward 256x384x13x13 -> 384, 3x3 pad 1x1 groups 2 fp32 nchw",
                          "conv5 forward 256x384x13x13 -> 256, 3x3 pad 1x1 groups 2 fp32 nchw"));
  EXPECT_EQ(ShapeOf("alexnet-caffe", "pool5"), "2x256x6x6");
}

TEST(Networks, Vgg16) {
  const std::vector<std::string> layers = Convolutions("vgg16", 64);
  ASSERT_EQ(layers.size(), 13u);
  EXPECT_EQ(layers[1], "conv1_2 forward 64x64x224x224 -> 64, 3x3 pad 1x1 fp32 nchw");
  EXPECT_EQ(layers[12], "conv5_3 forward 64x512x14x14 -> 512, 3x3 pad 1x1 fp32 nchw");
  EXPECT_EQ(ShapeOf("vgg16", "pool5"), "2x512x7x7");
}

TEST(Networks, ResNet18) {
  const std::vector<std::string> layers = Convolutions("resnet18", 128);
  ASSERT_EQ(layers.size(), 20u);
  EXPECT_EQ(layers[0], "conv1 forward 128x3x224x224 -> 64, 7x7 pad 3x3 stride 2x2 fp32 nchw");
  EXPECT_EQ(layers[1], "layer1.0.conv1 forward 128x64x56x56 -> 64, 3x3 pad 1x1 fp32 nchw");
  EXPECT_EQ(layers[5],
            "layer2.0.downsample forward 128x64x56x56 -> 128, 1x1 pad 0x0 stride 2x2 fp32 nchw");
  EXPECT_EQ(layers[6],
            "layer2.0.conv1 forward 128x64x56x56 -> 128, 3x3 pad 1x1 stride 2x2 fp32 nchw");
  EXPECT_EQ(layers[19], "layer4.1.conv2 forward 128x512x7x7 -> 512, 3x3 pad 1x1 fp32 nchw");
  EXPECT_EQ(ShapeOf("resnet18", "layer3.0.add"), "2x256x14x14");
  EXPECT_EQ(ShapeOf("resnet18", "pool5"), "2x512x1x1");
}

TEST(Networks, EachOperationIsALayer) {
  const auto layers = ConvolutionLayers(
      *BuildNetwork("alexnet"), 32,
      {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter});
  ASSERT_TRUE(layers.ok());
  EXPECT_EQ(layers->size(), 15u);
  EXPECT_EQ((*layers)[4].name, "conv2");
  EXPECT_EQ((*layers)[4].problem.operation, Operation::kBackwardData);
}

TEST(Networks, EveryListedNetworkBuilds) {
  for (const std::string& name : NetworkNames()) {
    const auto graph = BuildNetwork(name);
    ASSERT_TRUE(graph.ok()) << graph.message();
    EXPECT_EQ(graph->name, name);
  }
}

TEST(Networks, AnUnknownNameListsTheKnownOnes) {
  EXPECT_EQ(BuildNetwork("lenet").message(),
            "'lenet' is no network; expected one of alexnet, alexnet-caffe, vgg16, resnet18");
}

}  // namespace
}  // namespace ucudnn::planner
