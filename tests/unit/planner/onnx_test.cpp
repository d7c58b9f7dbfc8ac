#include "planner/graph/formats/onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/graph/networks.h"
#include "planner/graph/shapes.h"
#include "unit/planner/imports.h"
#include "unit/planner/onnx_model.h"

namespace ucudnn::planner {
namespace {

using Model = OnnxModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Onnx, TorchsNetworksAreTheBuiltInOnes) {
  const struct {
    const char* file;
    const char* network;
    int64_t parameters;
  } kCases[] = {{"torch_alexnet.onnx", "alexnet", 61'100'840},
                {"torch_resnet50.onnx", "resnet50", 25'557'032},
                {"torch_resnet18_v2.onnx", "resnet18-v2", 11'687'720},
                {"torch_densenet121.onnx", "densenet121-nary", 7'978'856}};
  for (const auto& [file, network, parameters] : kCases) {
    const auto graph = LoadData(file);
    ASSERT_TRUE(graph.ok()) << graph.message();
    EXPECT_EQ(*ParameterCount(*graph), parameters) << file;
    EXPECT_EQ(SortedConvolutions(*graph), SortedConvolutions(*BuildNetwork(network))) << file;
  }
}

// The files were written by torch's two exporters (data/README.md).
TEST(Onnx, WhatTorchWroteIsTheBuiltInNetwork) {
  const struct {
    const char* file;
    const char* network;
    int64_t parameters;  // from torchvision's documentation
  } kCases[] = {{"exported_alexnet.onnx", "alexnet", 61'100'840},
                {"exported_resnet50.onnx", "resnet50", 25'557'032},
                {"exported_resnet50_dynamo.onnx", "resnet50", 25'557'032},
                {"exported_inception_v3.onnx", "inception-v3", 23'834'568},  // without aux_logits
                {"exported_densenet121.onnx", "densenet121-nary", 7'978'856},
                {"exported_densenet121_dynamo.onnx", "densenet121-nary", 7'978'856}};
  for (const auto& [file, network, parameters] : kCases) {
    const auto graph = LoadData(file);
    ASSERT_TRUE(graph.ok()) << graph.message();
    EXPECT_EQ(*ParameterCount(*graph), parameters) << file;
    EXPECT_EQ(SortedConvolutions(*graph), SortedConvolutions(*BuildNetwork(network))) << file;
  }
}

// The expected numbers are those of the files. They differ from Keras's, because tf2onnx folds
// normalisations into filters and writes equal biases only once.
TEST(Onnx, WhatTf2onnxWroteOfKeras) {
  const struct {
    const char* file;
    int64_t trained;
    size_t convolutions;
  } kCases[] = {{"keras_resnet50.onnx", 25'516'008, 53},
                {"keras_inception_v3.onnx", 23'802'088, 94}};
  for (const auto& [file, trained, convolutions] : kCases) {
    const auto graph = LoadData(file);
    ASSERT_TRUE(graph.ok()) << graph.message();
    EXPECT_EQ(*ParameterCount(*graph), trained) << file;
    EXPECT_EQ(SortedConvolutions(*graph).size(), convolutions) << file;
    EXPECT_EQ((*InferShapes(*graph, 1)).back().c, 1000) << file;
  }
}

TEST(Onnx, PartsOfShapesAndBiasesThatRepeatOneNumber) {
  Model model;
  model.Numbers("rest", {-1}).Weight("w", {2, 4, 3, 3}).Weight("b", {2}).Numbers("zero", {0});
  model.Node("Shape", {"w"}, "filters").With("start", {0}).With("end", {1});
  model.Node("CastLike", {"zero", "x"}, "z").Node("Expand", {"z", "filters"}, "zeros");
  model.Node("Conv", {"x", "w", "zeros"}, "bare").Node("Conv", {"x", "w", "b"}, "biased");
  model.Node("Add", {"bare", "biased"}, "sum");
  model.Node("Shape", {"sum"}, "batch").With("start", {0}).With("end", {-3});
  model.Node("Concat", {"batch", "rest"}, "flat").Node("Reshape", {"sum", "flat"}, "y");
  EXPECT_THAT(model.Nodes(),
              ElementsAre("bare: convolution 2x2x6x6(x)", "biased: convolution 2x2x6x6(x)",
                          "sum: add 2x2x6x6(bare, biased)"));
  const auto graph = model.Import();
  EXPECT_FALSE(std::get<Convolution>(graph->nodes[1].op).bias);
  EXPECT_TRUE(std::get<Convolution>(graph->nodes[2].op).bias);
}

TEST(Onnx, ExpandedConstantsKeepWhatIsNotRepeated) {
  Model model;
  model.Weight("w", {2, 4, 3, 3}).Numbers("ones", {1, 1, 1}).Numbers("filters", {2});
  model.Weight("unknown", {1}).Node("Expand", {"w", "ones"}, "same");
  model.Node("Expand", {"unknown", "filters"}, "bias");
  model.Node("Conv", {"x", "same", "bias"}, "y");
  EXPECT_THAT(model.Nodes(), ElementsAre("y: convolution 2x2x6x6(x)"));
  EXPECT_FALSE(std::get<Convolution>(model.Import()->nodes[1].op).bias) << "it is one number";
}

TEST(Onnx, WhatManyNodesMakeOfAConstantTakesNoMemory) {
  Model model;
  model.Weight("many", std::vector<int64_t>(200000, 1)).Weight("w", {2, 4, 3, 3});
  for (int i = 0; i < 200; ++i) model.Node("Shape", {"many"}, "shape" + std::to_string(i));
  model.Node("Conv", {"x", "w"}, "y");
  EXPECT_THAT(model.Nodes(), ElementsAre("y: convolution 2x2x6x6(x)"));
}

TEST(Onnx, TheBatchIsWhateverTheFileSays) {
  EXPECT_EQ(LoadData("torch_resnet50.onnx")->nodes.size(), 175u);    // file of one image
  EXPECT_EQ(LoadData("torch_alexnet.onnx")->name, "torch_alexnet");  // file of any batch
}

// The two nodes of swish become one node, the gate multiplies every pixel, and the view becomes no
// node.
TEST(Onnx, GatesAndViewsOfTorch) {
  const auto graph = LoadData("torch_gated.onnx");
  ASSERT_TRUE(graph.ok()) << graph.message();
  EXPECT_THAT(Listing(*graph),
              ElementsAre("input: input 2x3x32x32()", "/Conv_0: convolution 2x16x16x16(input)",
                          "/BatchNormalization_0: batch_normalization 2x16x16x16(/Conv_0)",
                          "/Sigmoid_0: activation 2x16x16x16(/BatchNormalization_0)",
                          "/Conv_1: convolution 2x16x16x16(/Sigmoid_0)",
                          "/BatchNormalization_1: batch_normalization 2x16x16x16(/Conv_1)",
                          "/Sigmoid_1: activation 2x16x16x16(/BatchNormalization_1)",
                          "/GlobalAveragePool_0: global_pooling 2x16x1x1(/Sigmoid_1)",
                          "/Conv_2: convolution 2x4x1x1(/GlobalAveragePool_0)",
                          "/Sigmoid_2: activation 2x4x1x1(/Conv_2)",
                          "/Conv_3: convolution 2x16x1x1(/Sigmoid_2)",
                          "/Sigmoid_3: activation 2x16x1x1(/Conv_3)",
                          "/Mul_3: multiply 2x16x16x16(/Sigmoid_1, /Sigmoid_3)",
                          "/Conv_4: convolution 2x24x16x16(/Mul_3)",
                          "/BatchNormalization_2: batch_normalization 2x24x16x16(/Conv_4)",
                          "/GlobalAveragePool_1: global_pooling 2x24x1x1(/BatchNormalization_2)",
                          "/Gemm_0: fully_connected 2x10x1x1(/GlobalAveragePool_1)"));
  EXPECT_EQ(std::get<Activation>(graph->nodes[3].op).kind, ActivationKind::kSwish);
  EXPECT_EQ(std::get<Activation>(graph->nodes[11].op).kind, ActivationKind::kSigmoid);
  EXPECT_EQ(std::get<Convolution>(graph->nodes[4].op).groups, 16);
}

// The model moves channels to the last axis and back, pads SAME, and has nodes that add biases.
TEST(Onnx, TensorFlowsResidual) {
  const auto graph = LoadData("tf_residual.onnx");
  ASSERT_TRUE(graph.ok()) << graph.message();
  EXPECT_THAT(
      Listing(*graph),
      ElementsAre(
          "input: input 2x3x32x32()", "/Conv_0: convolution 2x16x16x16(input)",
          "/Relu_0: activation 2x16x16x16(/Conv_0)", "/Conv_1: convolution 2x16x16x16(/Relu_0)",
          "/BatchNormalization_0: batch_normalization 2x16x16x16(/Conv_1)",
          "/Add_1: add 2x16x16x16(/BatchNormalization_0, /Relu_0)",
          "/Relu_1: activation 2x16x16x16(/Add_1)", "/Conv_2: convolution 2x32x8x8(/Relu_1)",
          "/Relu_2: activation 2x32x8x8(/Conv_2)", "/Concat_0: concat 2x64x8x8(/Conv_2, /Relu_2)",
          "/ReduceMean_0: global_pooling 2x64x1x1(/Concat_0)",
          "/MatMul_0: fully_connected 2x10x1x1(/ReduceMean_0)",
          "/Softmax_0: softmax 2x10x1x1(/MatMul_0)"));
  const auto& first = std::get<Convolution>(graph->nodes[1].op);
  EXPECT_EQ(first.pad, (Spatial{0, 0, 0}));
  EXPECT_EQ(first.extra_pad, (Spatial{0, 1, 1}));
  EXPECT_TRUE(first.bias);
  EXPECT_FALSE(std::get<Convolution>(graph->nodes[3].op).bias);
  EXPECT_TRUE(std::get<FullyConnected>(graph->nodes[11].op).bias);
  EXPECT_EQ(*ParameterCount(*graph), 16 * 27 + 16 + 16 * 16 * 9 + 32 + 32 * 16 * 9 + 64 * 10 + 10);
}

TEST(Onnx, UpAndDown) {
  const auto graph = LoadData("torch_unet.onnx");
  ASSERT_TRUE(graph.ok()) << graph.message();
  EXPECT_THAT(
      Listing(*graph),
      ElementsAre(
          "input: input 2x1x30x30()", "/Conv_0: convolution 2x8x28x28(input)",
          "/Relu_0: activation 2x8x28x28(/Conv_0)", "/MaxPool_0: pooling 2x8x14x14(/Relu_0)",
          "/Conv_1: convolution 2x16x14x14(/MaxPool_0)", "/Relu_1: activation 2x16x14x14(/Conv_1)",
          "/ConvTranspose_0: transposed_convolution 2x8x28x28(/Relu_1)",
          "/Pad_0: padding 2x8x28x28(/ConvTranspose_0)",
          "/Concat_0: concat 2x16x28x28(/Relu_0, /Pad_0)",
          "/Slice_0: padding 2x16x24x26(/Concat_0)", "/Resize_0: upsampling 2x16x48x52(/Slice_0)",
          "/Conv_2: convolution 2x2x48x52(/Resize_0)"));
}

TEST(Onnx, PaddingSameAsTensorFlowDefinesIt) {
  for (int64_t extent = 5; extent <= 12; ++extent) {
    for (int64_t stride = 1; stride <= 3; ++stride) {
      for (int64_t window = 1; window <= 4; ++window) {
        Model model({4, extent, extent});
        model.Weight("w", {2, 4, window, window}).Node("Conv", {"x", "w"}, "y");
        model.With("strides", {stride, stride}).WithText("auto_pad", "SAME_UPPER");
        const auto graph = model.Import();
        ASSERT_TRUE(graph.ok()) << graph.message();
        EXPECT_EQ((*InferShapes(*graph, 1))[1].extents[1], (extent + stride - 1) / stride);
        const auto& convolution = std::get<Convolution>(graph->nodes[1].op);
        EXPECT_TRUE(convolution.extra_pad[1] == 0 || convolution.extra_pad[1] == 1);
      }
    }
  }
}

TEST(Onnx, TransposedConvolutionsOfEverySize) {
  const auto extent = [](Model& model) {
    const auto graph = model.Import();
    return graph.ok() ? (*InferShapes(*graph, 1))[1].extents[1] : -1;
  };
  const auto model = [] {
    Model result;
    result.Weight("w", {4, 2, 3, 3}).Node("ConvTranspose", {"x", "w"}, "y");
    result.With("strides", {2, 2}).With("group", {2});
    return result;
  };
  Model plain = model();
  EXPECT_EQ(extent(plain), 17);
  EXPECT_EQ(std::get<TransposedConvolution>(plain.Import()->nodes[1].op).filters, 4);
  Model padded = model();
  padded.With("pads", {1, 1, 1, 1}).With("output_padding", {1, 1});
  EXPECT_EQ(extent(padded), 16);
  Model uneven = model();
  uneven.With("pads", {0, 0, 1, 1});
  EXPECT_EQ(extent(uneven), 16);
  Model same = model();
  same.WithText("auto_pad", "SAME_UPPER");
  EXPECT_EQ(extent(same), 16);
  Model wanted = model();
  wanted.With("output_shape", {18, 18});
  EXPECT_EQ(extent(wanted), 18);
}

TEST(Onnx, ConstantsAreBiasesScalesOrNothing) {
  Model model;
  model.Weight("c", {1, 4, 1, 1}).Weight("three", {});
  model.Node("Mul", {"x", "c"}, "scaled").Node("Add", {"c", "scaled"}, "shifted");
  model.Node("Add", {"shifted", "three"}, "y").Node("Clip", {"y"}, "clipped");
  model.Node("Div", {"clipped", "three"}, "gate").Node("Mul", {"shifted", "gate"}, "out");
  EXPECT_THAT(model.Nodes(),
              ElementsAre("scaled: scale 2x4x8x8(x)", "clipped: activation 2x4x8x8(scaled)"));
  const auto graph = model.Import();
  EXPECT_TRUE(std::get<Scale>(graph->nodes[1].op).shift);
  EXPECT_EQ(std::get<Activation>(graph->nodes[2].op).kind, ActivationKind::kHardSwish);
}

// Exporters write x.view(...) of features with the batch of the export or with a placeholder (-1 or
// 0).
TEST(Onnx, FeaturesBecomeAnImage) {
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {-1, 4, 8, 8}, {1, 4, 8, 8}, {0, 4, 8, 8}, {1, 4, -1, 8}, {0, -1, 8, 8}}) {
    Model model;
    model.Node("Flatten", {"x"}, "f").Numbers("shape", shape).Node("Relu", {"f"}, "r");
    model.Node("Reshape", {"r", "shape"}, "map").Node("Add", {"map", "x"}, "y");
    EXPECT_THAT(model.Nodes(), ElementsAre("r: activation 2x4x8x8(x)", "y: add 2x4x8x8(r, x)"));
  }
  Model deep;
  deep.Node("Flatten", {"x"}, "f").Numbers("shape", {-1, 2, 2, 8, 8}).Weight("w", {1, 2, 1, 1, 1});
  deep.Node("Reshape", {"f", "shape"}, "map").Node("Conv", {"map", "w"}, "y");
  EXPECT_THAT(deep.Nodes(),
              ElementsAre("y: reshape 2x2x2x8x8(x)", "y_1: convolution 2x1x2x8x8(y)"));
}

TEST(Onnx, InputsThatNothingUsesAreLeftOut) {
  Model model;
  auto* unused = model.graph().add_input();
  unused->set_name("unused");
  model.Node("Relu", {"x"}, "y");
  EXPECT_THAT(model.Nodes(), ElementsAre("y: activation 2x4x8x8(x)"));
}

TEST(OnnxRefusal, DynamicExtentsAreNamed) {
  Model model;
  auto* dim = model.graph()
                  .mutable_input(0)
                  ->mutable_type()
                  ->mutable_tensor_type()
                  ->mutable_shape()
                  ->mutable_dim(2);
  dim->clear_dim_value();
  dim->set_dim_param("height");
  model.Node("Relu", {"x"}, "y");
  EXPECT_EQ(Refusal(model),
            "net.onnx: node 'y': input 'x': extent 'height' of axis 2; expected a number (only the "
            "batch is dynamic)");
}

TEST(OnnxRefusal, UnsupportedOperatorsAreListedTogether) {
  Model model;
  model.Node("Einsum", {"x"}, "a").Node("TopK", {"a"}, "b").Node("TopK", {"b"}, "c");
  model.Node("Softmax", {"c"}, "d").With("axis", {0});
  model.Weight("w", {1, 64, 3, 3}).Node("Conv", {"d", "w"}, "bad");
  EXPECT_EQ(Refusal(model),
            "net.onnx: unsupported operators: 'Einsum' (node 'a'); 'Softmax' (node 'd': that mixes "
            "images); 'TopK' (node 'b' and 1 more)");
  EXPECT_THAT(
      model.Import({.pass_through = true}).message(),
      HasSubstr("node 'bad': a filter of 64 channels in 1 groups over 4; expected as many"));
  Model passed;
  passed.Node("Einsum", {"x"}, "a").Node("Relu", {"a"}, "y");
  const auto graph = passed.Import({.pass_through = true});
  ASSERT_TRUE(graph.ok()) << graph.message();
  EXPECT_THAT(Listing(*graph), ElementsAre("x: input 2x4x8x8()", "y: activation 2x4x8x8(x)"));
}

TEST(OnnxRefusal, NamesNodeAndValue) {
  Model cycle;
  cycle.Node("Add", {"x", "later"}, "sum").Node("Relu", {"sum"}, "later");
  EXPECT_EQ(Refusal(cycle),
            "net.onnx: node 'sum': input 'later'; expected what a node before it gives");
  Model matrix;
  matrix.Node("Flatten", {"x"}, "f").Weight("w", {100, 10}).Node("MatMul", {"f", "w"}, "y");
  EXPECT_EQ(Refusal(matrix),
            "net.onnx: node 'y': a matrix for 100 features over 256; expected as many");
  Model pads;
  pads.Weight("w", {1, 4, 3, 3}).Node("Conv", {"x", "w"}, "y").With("pads", {1});
  EXPECT_EQ(Refusal(pads), "net.onnx: node 'y': 1 pads; expected one for each axis of the image");
  Model large;
  large.Weight("w", {1, 4, 3, 3}).Node("Conv", {"x", "w"}, "y");
  large.With("pads", {int64_t{1} << 40, 0, 0, 0});
  EXPECT_EQ(Refusal(large), "net.onnx: node 'y': pads 1099511627776; expected 32 bits");
  const auto reshaped = [](const std::vector<int64_t>& shape) {
    Model model;
    model.Node("Flatten", {"x"}, "f").Numbers("shape", shape).Node("Reshape", {"f", "shape"}, "y");
    return Refusal(model);
  };
  EXPECT_EQ(reshaped({-1, 4, 8, 9}),
            "net.onnx: node 'y': reshapes Nx256 to -1x4x8x9; expected as many numbers");
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {1, 3, -1, 8}, {1, -1, -1, 8}, {1, -4, -8, 8}, {1, int64_t{1} << 40, 1, 1, -1}}) {
    EXPECT_THAT(reshaped(shape), HasSubstr("expected as many numbers"));
  }
}

TEST(OnnxRefusal, OtherFiles) {
  EXPECT_EQ(ImportOnnx("no protocol buffers", "net.onnx").message(),
            "net.onnx: no ONNX model; expected protocol buffers of at most 2 GiB");
  EXPECT_EQ(ImportOnnx("", "net.onnx").message(), "net.onnx: no layers; expected a network");
}

}  // namespace
}  // namespace ucudnn::planner
