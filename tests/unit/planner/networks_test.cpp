#include "planner/graph/networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/graph/layers.h"
#include "planner/graph/networks/families.h"
#include "planner/graph/shapes.h"
#include "planner/striping/exact_size.h"

namespace ucudnn::planner {
namespace {

using ::testing::ElementsAre;

// Returns a text for every convolution of `network` at batch `n`.
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

// The sources of the expected numbers of trained parameters are: pretrained-models and Keras for
// nasnet-a, re-implementations in torch and Keras for U-Net, MLPerf for unet-3d, AutoencoderKL and
// AutoencoderKLHunyuanVideo of diffusers for vae-decoder and video-vae, Kirby 2020 for kirby's
// networks, and torchvision and Caffe for all others.
INSTANTIATE_TEST_SUITE_P(
    Networks, NetworkParameters,
    ::testing::Values(Published{"alexnet", 61'100'840}, Published{"alexnet-footnote", 61'838'248},
                      Published{"alexnet-caffe", 60'965'224}, Published{"vgg16", 138'357'544},
                      Published{"resnet18", 11'689'512}, Published{"resnet50", 25'557'032},
                      Published{"resnet152", 60'192'808}, Published{"inception-v3", 23'834'568},
                      Published{"densenet121", 7'978'856}, Published{"densenet121-nary", 7'978'856},
                      Published{"nasnet-a", 5'289'978}, Published{"nasnet-a-large", 88'753'150},
                      Published{"efficientnet-b0", 5'288'548}, Published{"unet", 31'030'658},
                      Published{"unet-3d", 31'190'243}, Published{"vae-decoder", 49'490'179},
                      Published{"video-vae", 146'136'067}, Published{"kirby-3m", 3'248'534},
                      Published{"kirby-3m-nobias", 3'248'524}, Published{"kirby-2b", 2'071'328'150},
                      // Keras's numbers, without the biases of the stem, of the projections and
                      // of each block's last convolution, which this network does not have.
                      Published{"resnet50-v2", 25'568'360 - 19'008},
                      Published{"resnet101-v2", 44'577'896 - 36'416},
                      Published{"resnet152-v2", 60'236'904 - 51'776},
                      // torchvision's numbers for version 1 of these networks, which has 896
                      // more normalised channels.
                      Published{"resnet18-v2", 11'689'512 - 2 * 896},
                      Published{"resnet34-v2", 21'797'672 - 2 * 896},
                      // Each additional class has a weight for each input of the last layer, and
                      // a bias.
                      Published{"alexnet-22k", 61'100'840 + 20'841 * 4097},
                      Published{"vgg16-22k", 138'357'544 + 20'841 * 4097},
                      Published{"inception-v3-22k", 23'834'568 + 20'841 * 2049}));

// For 12 filters in each layer, the paper (Huang 2016, table 2) gives 1.0 M. For 40 filters, the
// test computes the expected number.
TEST(Networks, DenseNet40Parameters) {
  const auto published = DenseNet40("densenet40", 12, DenseJoin::kChain);
  EXPECT_EQ(*ParameterCount(*published), 1'019'722);
  int64_t expected = 3 * 9 * 16;
  int64_t channels = 16;
  for (int block = 0; block < 3; ++block) {
    for (int layer = 0; layer < 12; ++layer, channels += 40) {
      expected += 2 * channels + channels * 9 * 40;
    }
    expected += 2 * channels + (block < 2 ? channels * channels : (channels + 1) * 10);
  }
  for (const char* name : {"densenet40", "densenet40-nary"}) {
    EXPECT_EQ(*ParameterCount(*BuildNetwork(name)), expected);
  }
}

// DeePa counts convolutions, poolings, fully connected layers and joins of branches as nodes.
struct Counted {
  const char* network;
  int nodes;
};

class NetworkNodes : public ::testing::TestWithParam<Counted> {};

TEST_P(NetworkNodes, AreAsDeePaCounts) {
  const auto graph = BuildNetwork(GetParam().network);
  const auto counts = [](const Node& node) {
    return std::holds_alternative<Convolution>(node.op) ||
           std::holds_alternative<TransposedConvolution>(node.op) ||
           std::holds_alternative<Pooling>(node.op) ||
           std::holds_alternative<GlobalPooling>(node.op) ||
           std::holds_alternative<FullyConnected>(node.op) ||
           std::holds_alternative<Concat>(node.op) || std::holds_alternative<Add>(node.op) ||
           std::holds_alternative<Multiply>(node.op);
  };
  EXPECT_EQ(std::count_if(graph->nodes.begin(), graph->nodes.end(), counts), GetParam().nodes);
}

INSTANTIATE_TEST_SUITE_P(Networks, NetworkNodes,
                         ::testing::Values(Counted{"alexnet", 11}, Counted{"vgg16", 21},
                                           Counted{"resnet18", 31}, Counted{"resnet50", 72},
                                           Counted{"resnet152", 208}, Counted{"resnet18-v2", 31},
                                           Counted{"resnet152-v2", 208},
                                           Counted{"inception-v3", 120}, Counted{"densenet40", 79},
                                           Counted{"densenet40-nary", 79},
                                           Counted{"densenet121", 184},
                                           Counted{"densenet121-nary", 184},
                                           Counted{"efficientnet-b0", 124}, Counted{"unet", 31}));

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

// A pre-activation network (-v2) has the same convolutions as the network whose activations follow
// the sums.
TEST(Networks, PreActivationMovesNoConvolution) {
  for (const std::string name : {"resnet18", "resnet50", "resnet152"}) {
    std::vector<std::string> before = Convolutions(name + "-v2", 32);
    std::vector<std::string> behind = Convolutions(name, 32);
    std::sort(before.begin(), before.end());
    std::sort(behind.begin(), behind.end());
    EXPECT_EQ(before, behind) << name;
  }
}

std::vector<std::string> InputsOf(const Graph& graph, const std::string& node) {
  std::vector<std::string> names;
  for (const NodeId input : graph.Find(node)->inputs) {
    names.push_back(graph.nodes[static_cast<size_t>(input)].name);
  }
  return names;
}

// The expected inputs follow He 2016, figure 4e and the appendix.
TEST(Networks, ResNetV2ActivatesInFrontOfConvolutions) {
  const Graph graph = *BuildNetwork("resnet34-v2");
  EXPECT_THAT(InputsOf(graph, "layer1.0.conv1"), ElementsAre("pool1"));
  EXPECT_THAT(InputsOf(graph, "layer1.0.add"), ElementsAre("layer1.0.conv2", "pool1"));
  EXPECT_THAT(InputsOf(graph, "layer1.1.bn1"), ElementsAre("layer1.0.add"));
  EXPECT_THAT(InputsOf(graph, "layer1.1.add"), ElementsAre("layer1.1.conv2", "layer1.0.add"));
  EXPECT_THAT(InputsOf(graph, "layer2.0.downsample"), ElementsAre("layer2.0.relu1"));
  EXPECT_THAT(InputsOf(graph, "layer2.0.conv1"), ElementsAre("layer2.0.relu1"));
  EXPECT_THAT(InputsOf(graph, "layer2.0.add"),
              ElementsAre("layer2.0.conv2", "layer2.0.downsample"));
  EXPECT_THAT(InputsOf(graph, "bn5"), ElementsAre("layer4.2.add"));
  const auto is_sum = [](const Node& node) { return std::holds_alternative<Add>(node.op); };
  EXPECT_EQ(std::count_if(graph.nodes.begin(), graph.nodes.end(), is_sum), 3 + 4 + 6 + 3);
  EXPECT_THAT(InputsOf(*BuildNetwork("resnet50-v2"), "layer1.0.downsample"), ElementsAre("pool1"));
}

// The paper counts convolutions, fully connected layers and the softmax as layers.
TEST(Networks, KirbysLayersAreAsManyAsPrinted) {
  const auto count = [](const std::string& network, auto counts) {
    const auto graph = BuildNetwork(network);
    return std::count_if(graph->nodes.begin(), graph->nodes.end(),
                         [&](const Node& node) { return counts(node.op); });
  };
  const auto convolves = [](const Operator& op) { return std::holds_alternative<Convolution>(op); };
  const auto connects = [](const Operator& op) {
    return std::holds_alternative<FullyConnected>(op);
  };
  const auto counts = [&](const Operator& op) {
    return convolves(op) || connects(op) || std::holds_alternative<Softmax>(op);
  };
  EXPECT_EQ(count("kirby-3m", convolves), 4'094);
  EXPECT_EQ(count("kirby-3m", counts), 4'096);
  EXPECT_EQ(count("kirby-3m-nobias", counts), 4'096);
  EXPECT_EQ(count("kirby-2b", convolves), 4'098);
  EXPECT_EQ(count("kirby-2b", connects), 16);
  EXPECT_EQ(count("kirby-2b", counts), 4'115);
}

TEST(Networks, Kirby) {
  const std::vector<std::string> layers = Convolutions("kirby-3m", 1);
  EXPECT_EQ(layers.front(), "opening forward 1x1x28x28 -> 4, 7x7 pad 1x1 fp32 nchw");
  EXPECT_EQ(layers.back(), "step4093.conv forward 1x4x24x24 -> 4, 7x7 pad 3x3 fp32 nchw");
  const Graph graph = *BuildNetwork("kirby-2b");
  EXPECT_THAT(InputsOf(graph, "step257.add"), ElementsAre("step257.relu", "step256.add"));
  EXPECT_THAT(InputsOf(graph, "step258.fc"), ElementsAre("step257.add"));
  EXPECT_THAT(InputsOf(graph, "step258.add"), ElementsAre("step258.map", "step257.add"));
  EXPECT_THAT(InputsOf(graph, "step515.fc"), ElementsAre("step514.add"));
  EXPECT_THAT(InputsOf(graph, "fc"), ElementsAre("step4112.add"));
}

struct NodeShape {
  const char* network;
  const char* node;
  const char* shape;  // at batch 2
};

class NetworkShapes : public ::testing::TestWithParam<NodeShape> {};

TEST_P(NetworkShapes, AreThePapers) {
  EXPECT_EQ(ShapeOf(GetParam().network, GetParam().node), GetParam().shape);
}

INSTANTIATE_TEST_SUITE_P(
    Networks, NetworkShapes,
    ::testing::Values(NodeShape{"resnet50", "layer1.2.add", "2x256x56x56"},
                      NodeShape{"resnet50", "layer2.0.relu3", "2x512x28x28"},
                      NodeShape{"resnet50", "layer4.2.relu3", "2x2048x7x7"},
                      NodeShape{"resnet152", "layer3.35.add", "2x1024x14x14"},
                      NodeShape{"resnet34-v2", "layer3.5.add", "2x256x14x14"},
                      NodeShape{"resnet101-v2", "layer3.22.add", "2x1024x14x14"},
                      NodeShape{"resnet152-v2", "relu5", "2x2048x7x7"},
                      NodeShape{"kirby-3m", "step4093.add", "2x4x24x24"},
                      NodeShape{"kirby-2b", "step258.fc", "2x11520x1x1"},
                      NodeShape{"kirby-2b", "step4112.add", "2x20x24x24"},
                      NodeShape{"inception-v3", "pool2", "2x192x35x35"},
                      NodeShape{"inception-v3", "a1.concat", "2x256x35x35"},
                      NodeShape{"inception-v3", "a3.concat", "2x288x35x35"},
                      NodeShape{"inception-v3", "b.concat", "2x768x17x17"},
                      NodeShape{"inception-v3", "c4.concat", "2x768x17x17"},
                      NodeShape{"inception-v3", "d.concat", "2x1280x8x8"},
                      NodeShape{"inception-v3", "e2.concat", "2x2048x8x8"},
                      NodeShape{"densenet40", "block1.12.concat", "2x496x32x32"},
                      NodeShape{"densenet40", "block2.12.concat", "2x976x16x16"},
                      NodeShape{"densenet40-nary", "block3.12.concat", "2x1456x8x8"},
                      NodeShape{"densenet121", "transition1.pool", "2x128x28x28"},
                      NodeShape{"densenet121", "block4.16.concat", "2x1024x7x7"},
                      NodeShape{"nasnet-a", "cell3.concat", "2x264x28x28"},
                      NodeShape{"nasnet-a", "cell7.concat", "2x528x14x14"},
                      NodeShape{"nasnet-a", "cell11.concat", "2x1056x7x7"},
                      NodeShape{"nasnet-a-large", "cell17.concat", "2x4032x11x11"},
                      NodeShape{"efficientnet-b0", "stage1.0.project", "2x16x112x112"},
                      NodeShape{"efficientnet-b0", "stage3.1.se.reduce", "2x10x1x1"},
                      NodeShape{"efficientnet-b0", "stage5.2.add", "2x112x14x14"},
                      NodeShape{"efficientnet-b0", "head", "2x1280x7x7"},
                      NodeShape{"unet", "bottom.conv2", "2x1024x28x28"},
                      NodeShape{"unet", "up4.concat", "2x1024x56x56"},
                      NodeShape{"unet", "classes", "2x2x388x388"},
                      NodeShape{"unet-3d", "bottleneck.conv2", "2x320x4x4x4"},
                      NodeShape{"unet-3d", "output", "2x3x128x128x128"},
                      NodeShape{"vae-decoder", "up_blocks.2.upsamplers.0.conv", "2x256x1024x1024"},
                      NodeShape{"vae-decoder", "conv_out", "2x3x1024x1024"},
                      NodeShape{"video-vae", "up_blocks.1.resnets.0.add", "2x512x5x120x208"},
                      NodeShape{"video-vae", "up_blocks.2.resnets.0.add", "2x256x9x240x416"},
                      NodeShape{"video-vae", "conv_out", "2x3x17x480x832"}));

TEST(Networks, InputsOfANaryDenseLayerAreAllBefore) {
  const auto graph = BuildNetwork("densenet40-nary");
  EXPECT_EQ(graph->Find("block2.5.concat")->inputs.size(), 6u);
  EXPECT_EQ(BuildNetwork("densenet40")->Find("block2.5.concat")->inputs.size(), 2u);
}

TEST(Networks, ATransposedConvolutionIsAskedForAsAGradient) {
  const std::vector<std::string> layers = Convolutions("unet", 4);
  ASSERT_EQ(layers.size(), 23u);
  EXPECT_EQ(layers[10],
            "up4.up backward_data 4x512x56x56 -> 1024, 2x2 pad 0x0 stride 2x2 fp32 nchw");
  EXPECT_EQ(layers[11], "up4.conv1 forward 4x1024x56x56 -> 512, 3x3 pad 0x0 fp32 nchw");
}

// A convolution that is causal in time reads two frames of padding before the first frame and none
// after the last. cuDNN's legacy API pads both ends by the same amount, so the layer's image
// already includes these two frames (7 and 19 frames in all).
TEST(Networks, CausalConvolutionsReadNoLaterFrame) {
  const std::vector<std::string> layers = Convolutions("video-vae", 1);
  EXPECT_EQ(layers.front(), "conv_in forward 1x16x7x60x104 -> 512, 3x3x3 pad 0x1x1 fp32 nchw");
  EXPECT_EQ(layers.back(), "conv_out forward 1x128x19x480x832 -> 3, 3x3x3 pad 0x1x1 fp32 nchw");
}

TEST(Networks, OfSingleImagesSayTheirBatch) {
  for (const char* name : {"unet-3d", "vae-decoder", "video-vae"}) EXPECT_EQ(UsualBatch(name), 1);
  for (const char* name : {"unet", "alexnet", "no-network"})
    EXPECT_EQ(UsualBatch(name), std::nullopt);
}

TEST(Networks, NormalizationsAndAttentionFollowTheSizeOfTheImages) {
  Graph graph = *BuildNetwork("vae-decoder");
  ASSERT_TRUE(SetInputExtents(graph, {0, 8, 16}).ok());
  const auto shapes = InferShapes(graph, 1);
  ASSERT_TRUE(shapes.ok()) << shapes.message();
  EXPECT_EQ(Describe(shapes->back()), "1x3x64x128");
  EXPECT_EQ(std::get<Attention>(graph.Find("mid_block.attentions.0")->op).keys, 8 * 16);
  const auto norm = static_cast<size_t>(graph.Find("conv_norm_out") - graph.nodes.data());
  EXPECT_EQ((*shapes)[norm].extents, (Spatial{1, 64, 128}));
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
            "'lenet' is no network; expected one of alexnet, alexnet-footnote, alexnet-caffe, "
            "alexnet-22k, vgg16, vgg16-22k, resnet18, resnet50, resnet152, resnet18-v2, "
            "resnet34-v2, resnet50-v2, resnet101-v2, resnet152-v2, inception-v3, "
            "inception-v3-22k, densenet40, densenet40-nary, densenet121, densenet121-nary, "
            "nasnet-a, nasnet-a-large, efficientnet-b0, kirby-3m, kirby-3m-nobias, kirby-2b, unet, "
            "unet-3d, vae-decoder, video-vae, or a file that ends in .onnx, .prototxt or .json");
}

}  // namespace
}  // namespace ucudnn::planner
