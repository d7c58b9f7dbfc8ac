#include "planner/graph/formats/caffe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/graph/formats/text_format.h"
#include "planner/graph/networks.h"
#include "planner/graph/shapes.h"
#include "unit/planner/imports.h"

namespace ucudnn::planner {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kInput = R"(input: "data" input_shape { dim: 2 dim: 4 dim: 9 dim: 9 })";

Result<Graph> Import(const std::string& layers, const ImportOptions& options = {}) {
  return ImportCaffe(kInput + layers, "net.prototxt", options);
}

std::vector<std::string> Nodes(const std::string& layers) {
  const auto graph = Import(layers);
  EXPECT_TRUE(graph.ok()) << graph.message();
  return graph.ok() ? Listing(*graph) : std::vector<std::string>();
}

std::string LayerText(const std::string& name, const std::string& type, const std::string& bottom,
                      const std::string& more = "") {
  return " layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" +
         name + "' " + more + " }";
}

TEST(Caffe, PublishedNetworksHaveTheirParameters) {
  EXPECT_EQ(*ParameterCount(*LoadData("alexnet_train_val.prototxt")), 60'965'224);
  EXPECT_EQ(*ParameterCount(*LoadData("vgg16_v1.prototxt")), 138'357'544);
  EXPECT_EQ(*ParameterCount(*LoadData("resnet18_deploy.prototxt")), 11'689'512);
  EXPECT_EQ(*ParameterCount(*LoadData("googlenet_deploy.prototxt")), 6'998'552);
}

TEST(Caffe, NetworksAreTheBuiltInOnes) {
  const auto alexnet = LoadData("alexnet_train_val.prototxt");
  EXPECT_EQ(alexnet->name, "AlexNet");
  EXPECT_EQ(Listing(*alexnet).size(), Listing(*BuildNetwork("alexnet-caffe")).size());
  EXPECT_EQ(SortedConvolutions(*alexnet), SortedConvolutions(*BuildNetwork("alexnet-caffe")));
  const auto vgg = LoadData("vgg16_v1.prototxt");
  EXPECT_EQ(SortedConvolutions(*vgg), SortedConvolutions(*BuildNetwork("vgg16")));
  EXPECT_EQ(Listing(*vgg), Listing(*BuildNetwork("vgg16")));
  const auto resnet = LoadData("resnet18_deploy.prototxt");
  EXPECT_EQ(SortedConvolutions(*resnet), SortedConvolutions(*BuildNetwork("resnet18")));
}

TEST(Caffe, GoogLeNetShapesAreThePapers) {
  const std::vector<std::string> nodes = Listing(*LoadData("googlenet_deploy.prototxt"));
  EXPECT_THAT(nodes, Contains("conv2/norm2: lrn 2x192x56x56(relu_conv2/3x3)"));
  EXPECT_THAT(nodes, Contains(HasSubstr("inception_3b/output: concat 2x480x28x28(")));
  EXPECT_THAT(nodes, Contains(HasSubstr("inception_4e/output: concat 2x832x14x14(")));
  EXPECT_THAT(nodes, Contains(HasSubstr("pool5/7x7_s1: pooling 2x1024x1x1(")));
}

TEST(Caffe, LayersInPlaceFollowOneAnother) {
  EXPECT_THAT(Nodes(R"(
    layer { name: "conv" type: "Convolution" bottom: "data" top: "x"
            convolution_param { num_output: 8 kernel_size: 3 } }
    layer { name: "relu" type: "ReLU" bottom: "x" top: "x" relu_param { negative_slope: 0.1 } }
    layer { name: "drop" type: "Dropout" bottom: "x" top: "x" }
    layer { name: "pool" type: "Pooling" bottom: "x" top: "y"
            pooling_param { pool: AVE kernel_size: 2 stride: 2 } })"),
              ElementsAre("data: input 2x4x9x9()", "conv: convolution 2x8x7x7(data)",
                          "relu: activation 2x8x7x7(conv)", "drop: dropout 2x8x7x7(relu)",
                          "pool: pooling 2x8x4x4(drop)"));
}

TEST(Caffe, NormalizationAndItsScaleAreOne) {
  const std::string normalized = LayerText("bn", "BatchNorm", "data");
  const std::string scale = "scale_param { bias_term: true }";
  EXPECT_THAT(
      Nodes(normalized + LayerText("s", "Scale", "bn", scale) + LayerText("r", "ReLU", "s")),
      ElementsAre("data: input 2x4x9x9()", "bn: batch_normalization 2x4x9x9(data)",
                  "r: activation 2x4x9x9(bn)"));
  EXPECT_EQ(*ParameterCount(*Import(normalized + LayerText("s", "Scale", "bn", scale))), 8);
  EXPECT_EQ(*ParameterCount(*Import(normalized)), 0);
  EXPECT_EQ(*ParameterCount(*Import(normalized + LayerText("s", "Scale", "bn"))), 4);
  EXPECT_EQ(*ParameterCount(*Import(LayerText("s", "Scale", "data", scale))), 8);
}

TEST(Caffe, BranchesJoin) {
  EXPECT_THAT(Nodes(R"(
    layer { name: "split" type: "Split" bottom: "data" top: "a" top: "b" }
    layer { name: "gate" type: "Pooling" bottom: "a" top: "gate"
            pooling_param { pool: AVE global_pooling: true } }
    layer { name: "gated" type: "Scale" bottom: "b" bottom: "gate" top: "gated" }
    layer { name: "sum" type: "Eltwise" bottom: "gated" bottom: "data" top: "sum" }
    layer { name: "all" type: "Concat" bottom: "sum" bottom: "gated" top: "all"
            concat_param { axis: 1 } })"),
              ElementsAre("data: input 2x4x9x9()", "gate: global_pooling 2x4x1x1(data)",
                          "gated: multiply 2x4x9x9(data, gate)", "sum: add 2x4x9x9(gated, data)",
                          "all: concat 2x8x9x9(sum, gated)"));
}

TEST(Caffe, ImagesGrowAndAreCropped) {
  EXPECT_THAT(Nodes(LayerText("up", "Deconvolution", "data",
                              "convolution_param { num_output: 4 kernel_size: 4 stride: 2 group: 4 "
                              "bias_term: false }") +
                    R"( layer { name: "crop" type: "Crop" bottom: "up" bottom: "data" top: "crop"
                                crop_param { axis: 2 offset: 5 } })"),
              ElementsAre("data: input 2x4x9x9()", "up: transposed_convolution 2x4x20x20(data)",
                          "crop: padding 2x4x9x9(up)"));
}

TEST(Caffe, OldAndNewInputs) {
  const std::string conv = LayerText("conv", "Convolution", "data",
                                     "convolution_param { num_output: 2 kernel_h: 3 kernel_w: 1 }");
  const auto shape = [&](const std::string& input) {
    const auto graph = ImportCaffe(input + conv, "net.prototxt");
    return graph.ok() ? Listing(*graph).back() : graph.message();
  };
  const std::string expected = "conv: convolution 2x2x6x8(data)";
  EXPECT_EQ(shape("input: 'data' input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8"), expected);
  EXPECT_EQ(shape("layer { name: 'data' type: 'Input' top: 'data' "
                  "input_param { shape { dim: [1, 3, 8, 8] } } }"),
            expected);
  EXPECT_EQ(shape("layer { name: 'data' type: 'MemoryData' top: 'data' top: 'label' "
                  "memory_data_param { batch_size: 1 channels: 3 height: 8 width: 8 } }"),
            expected);
  EXPECT_EQ(shape("layer { name: 'data' type: 'DummyData' top: 'data' "
                  "dummy_data_param { num: 1 channels: 3 height: 8 width: 8 } }"),
            expected);
  EXPECT_EQ(
      shape("layer { name: 'd' type: 'Data' top: 'data' }"),
      "net.prototxt: node 'd': crop_size 0 of its images; expected their extents, and the file "
      "says no other: --input 3x224x224 gives them");
}

TEST(Caffe, ImagesOfDataLayersCanBeGiven) {
  const std::string conv = LayerText("conv", "Convolution", "data",
                                     "convolution_param { num_output: 2 kernel_h: 3 kernel_w: 1 }");
  const auto shape = [&](const std::string& input, const std::vector<int32_t>& extents) {
    const auto graph = ImportCaffe(input + conv, "net.prototxt", {.input = extents});
    return graph.ok() ? Listing(*graph).front() : graph.message();
  };
  const std::string data = "layer { name: 'data' type: 'Data' top: 'data' top: 'label' ";
  EXPECT_EQ(shape(data + "}", {1, 28, 28}), "data: input 2x1x28x28()");
  EXPECT_EQ(shape(data + "}", {1, 8, 28, 28}), "data: input 2x1x8x28x28()");
  EXPECT_EQ(shape(data + "transform_param { crop_size: 27 } }", {1, 28, 28}),
            "data: input 2x1x28x28()");
  EXPECT_EQ(shape("input: 'data' input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8", {1, 28, 28}),
            "net.prototxt: it has no data layer whose images could be given");
}

TEST(Caffe, TheTrainingPhaseIsWhatCounts) {
  EXPECT_EQ(Nodes(LayerText("test", "ReLU", "data", "include { phase: TEST }") +
                  LayerText("trained", "ReLU", "data", "exclude { phase: TEST }") +
                  LayerText("staged", "ReLU", "data", "include { stage: 'deploy' }"))
                .size(),
            2u);
}

TEST(CaffeRefusal, UnknownLayersAreListedTogether) {
  const std::string layers = LayerText("n", "Normalize", "data") + LayerText("p", "PriorBox", "n") +
                             LayerText("q", "PriorBox", "p") +
                             LayerText("c", "Concat", "q", "concat_param { axis: 2 }");
  EXPECT_EQ(Import(layers).message(),
            "net.prototxt: unsupported operators: 'Concat' (node 'c': along axis 2); 'Normalize' "
            "(node 'n'); 'PriorBox' (node 'p' and 1 more)");
  const auto passed = Import(layers + LayerText("r", "ReLU", "c"), {.pass_through = true});
  ASSERT_TRUE(passed.ok()) << passed.message();
  EXPECT_THAT(Listing(*passed),
              ElementsAre("data: input 2x4x9x9()", "r: activation 2x4x9x9(data)"));
}

TEST(CaffeRefusal, NamesFileLayerAndValue) {
  EXPECT_EQ(Import(LayerText("c", "Convolution", "data", "convolution_param { num_output: many }"))
                .message(),
            "net.prototxt: node 'c': line 1: num_output: 'many'; expected a whole number");
  EXPECT_EQ(Import(LayerText("r", "ReLU", "nothing")).message(),
            "net.prototxt: node 'r': bottom 'nothing'; expected the top of a layer before it");
  EXPECT_THAT(Import(LayerText("c", "Convolution", "data", "convolution_param { num_output: 2 }"))
                  .message(),
              HasSubstr("node 'c': window 1x0x0, stride"));
  EXPECT_THAT(Import(" layers { layer { name: 'old' } }").message(), HasSubstr("before V1"));
  EXPECT_THAT(ImportCaffe("", "net.prototxt").message(), HasSubstr("no layers; expected a"));
}

TEST(CaffeRefusal, TextThatIsNoPrototxtSaysTheLine) {
  EXPECT_EQ(Import("\n\nlayer { name: 'a'").message(),
            "net.prototxt: line 3: the text ends inside a message; expected '}'");
  EXPECT_EQ(Import("\nlayer = 3").message(),
            "net.prototxt: line 2: '=' behind 'layer'; expected ':' or '{'");
  EXPECT_THAT(Import("\nname: 'open\n").message(), HasSubstr("line 2: a string without its end"));
  EXPECT_THAT(Import(" }").message(), HasSubstr("line 1: '}'; expected the name of a field"));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "a {";
  EXPECT_THAT(Import(deep).message(), HasSubstr("nested deeper than 32"));
}

TEST(TextFormat, ValuesCommentsAndLists) {
  const auto text = ParseTextFormat(
      "a: 1 # comment }\n b: 'x' \"y\\\"z\" c < d: -1.5e3 > e: [1, 2] e: 3; f { } g: [{h: 1}, {}]");
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_EQ(text->Find("a")->value, "1");
  EXPECT_EQ(text->Find("b")->value, "xy\"z");
  EXPECT_EQ(text->Find("b")->line, 2);
  EXPECT_EQ(text->Find("c")->Find("d")->value, "-1.5e3");
  EXPECT_EQ(text->FindAll("e").size(), 3u);
  EXPECT_TRUE(text->Find("f")->is_message);
  EXPECT_EQ(text->FindAll("g").size(), 2u);
  EXPECT_EQ(text->Find("z"), nullptr);
}

}  // namespace
}  // namespace ucudnn::planner
