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
    layer { name: "pool" type: "Pooling" bottom: "a" top: "pool"
            pooling_param { pool: AVE global_pooling: true } }
    layer { name: "gate" type: "Flatten" bottom: "pool" top: "gate" }
    layer { name: "gated" type: "Scale" bottom: "b" bottom: "gate" top: "gated"
            scale_param { axis: 0 } }
    layer { name: "sum" type: "Eltwise" bottom: "gated" bottom: "data" top: "sum" }
    layer { name: "all" type: "Concat" bottom: "sum" bottom: "gated" top: "all"
            concat_param { axis: 1 } })"),
              ElementsAre("data: input 2x4x9x9()", "pool: global_pooling 2x4x1x1(data)",
                          "gate: flatten 2x4x1x1(pool)", "gated: multiply 2x4x9x9(data, gate)",
                          "sum: add 2x4x9x9(gated, data)", "all: concat 2x8x9x9(sum, gated)"));
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

TEST(Caffe, DataLayersSayTheirChannels) {
  const auto input = [](const std::string& type, const std::string& more) {
    const auto graph = ImportCaffe("layer { name: 'd' type: '" + type + "' top: 'd' top: 'l' " +
                                       more + " }" + LayerText("r", "ReLU", "d"),
                                   "net.prototxt");
    return graph.ok() ? Listing(*graph).front() : graph.message();
  };
  EXPECT_EQ(input("Data", "transform_param { crop_size: 28 }"), "d: input 2x3x28x28()");
  EXPECT_EQ(input("Data", "transform_param { crop_size: 28 force_gray: true }"),
            "d: input 2x1x28x28()");
  EXPECT_EQ(input("ImageData", "image_data_param { is_color: false new_height: 8 new_width: 6 }"),
            "d: input 2x1x8x6()");
  EXPECT_THAT(input("Data", "transform_param { force_color: true force_gray: true }"),
              HasSubstr("force_color and force_gray; expected one of them"));
}

TEST(Caffe, ImagesOfDataLayersCanBeGiven) {
  const std::string conv = LayerText("conv", "Convolution", "data",
                                     "convolution_param { num_output: 2 kernel_size: 3 }");
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

// Imports `layers`. Returns the lines of Listing() without inputs, and then the number of trained
// parameters. If the import fails, returns its error without "net.prototxt: ".
std::string WhatIsReadOf(const std::string& layers) {
  const Result<Graph> graph = Import(layers);
  if (!graph.ok()) return graph.message().substr(std::string("net.prototxt: ").size());
  std::string text;
  for (const std::string& line : Listing(*graph)) {
    if (line.find(": input ") == std::string::npos) text += line + "; ";
  }
  return text + std::to_string(*ParameterCount(*graph));
}

struct Reading {
  std::string layers;
  std::string expected;  // result of WhatIsReadOf; after "...", only a part of the result
};

void ExpectReadings(const std::vector<Reading>& readings) {
  for (const auto& [layers, expected] : readings) {
    if (expected.starts_with("...")) {
      EXPECT_THAT(WhatIsReadOf(layers), HasSubstr(expected.substr(3))) << layers;
    } else {
      EXPECT_EQ(WhatIsReadOf(layers), expected) << layers;
    }
  }
}

std::string OneLayer(const std::string& type, const std::string& more = "") {
  return LayerText("y", type, "data", more);
}
std::string OneConvolution(const std::string& more) {
  return OneLayer("Convolution", "convolution_param { num_output: 2 " + more + " }");
}
std::string OnePooling(const std::string& more) {
  return OneLayer("Pooling", "pooling_param { " + more + " }");
}

const std::string kVolume =
    "layer { name: 'v' type: 'Input' top: 'v' input_param { shape { dim: [1, 2, 8, 9, 10] } } }";

TEST(CaffeLayers, WindowsAreNumbersOfEachAxis) {
  const auto deep = [](const std::string& type, const std::string& more) {
    return kVolume + LayerText("y", type, "v", more);
  };
  ExpectReadings({
      {deep("Convolution", "convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 }"),
       "y: convolution 2x4x4x5x5(v); 220"},
      {deep("Convolution",
            "convolution_param { num_output: 4 kernel_size: [1, 3, 5] pad: [0, 1, 2] }"),
       "y: convolution 2x4x8x9x10(v); 124"},
      {deep("Deconvolution",
            "convolution_param { num_output: 4 kernel_size: 2 stride: 2 bias_term: false }"),
       "y: transposed_convolution 2x4x16x18x20(v); 64"},
      {deep("Pooling", "pooling_param { kernel_size: [1, 2, 2] stride: [1, 2, 2] }"),
       "y: pooling 2x2x8x5x5(v); 0"},
      {OneConvolution("kernel_h: 3 kernel_w: 1 pad_h: 1"), "y: convolution 2x2x9x9(data); 26"},
      {OneConvolution("kernel_size: 3 hole: 3"), "y: convolution 2x2x3x3(data); 74"},
      {OneConvolution("kernel_size: 3 dilation: 2 dilation: 1"),
       "y: convolution 2x2x5x7(data); 74"},
      {OneConvolution("kernel_size: 3 hole: 3 dilation: 3"),
       "...hole and dilation; expected one of them"},
      {OneConvolution("kernel_size: 5 kernel_h: 3 kernel_w: 3"),
       "...kernel_size, kernel_h and kernel_w"},
      {OneConvolution("kernel_size: 5 kernel_size: 3 kernel_size: 1"),
       "...3 kernel_size for 2 spatial axes"},
      {OneConvolution("kernel_h: 3"), "...kernel_size 0; expected 1 or more"},
      {OneConvolution("kernel_size: 3 stride: 0"), "...stride 0; expected 1 or more"},
      {OneConvolution("kernel_size: 3 group: 3"), "...group 3; expected a divisor of 4 channels"},
      {OneLayer("Convolution", "convolution_param { kernel_size: 3 }"), "...num_output 0"},
      {OneConvolution("kernel_size: 3 axis: 2"), "y: opaque 2x4x2x7(data); 56"},
      {OneLayer("Deconvolution", "convolution_param { num_output: 2 kernel_size: 3 axis: 2 }"),
       "y: opaque 2x4x2x11(data); 56"},
  });
}

TEST(CaffeLayers, PoolingRoundsAsCaffeDoes) {
  ExpectReadings({
      {OnePooling("kernel_size: 2 stride: 2"), "y: pooling 2x4x5x5(data); 0"},
      {OnePooling("kernel_size: 2 stride: 2 ceil_mode: false"), "y: pooling 2x4x4x4(data); 0"},
      {OnePooling("kernel_size: 2 stride: 2 round_mode: FLOOR"), "y: pooling 2x4x4x4(data); 0"},
      {OnePooling("kernel_size: 2 round_mode: FLOOR ceil_mode: true"),
       "...round_mode and ceil_mode"},
      // Without a pad, a last window that begins outside the image is kept, as in Caffe.
      {OnePooling("kernel_size: 1 stride: 3 pad: 0"), "y: pooling 2x4x4x4(data); 0"},
      {OnePooling("kernel_size: 2 stride: 3 pad: 1"), "y: pooling 2x4x4x4(data); 0"},
      {OnePooling("kernel_size: 10 stride: 2"), "y: pooling 2x4x1x1(data); 0"},
      {OnePooling("kernel_size: 12 stride: 2"), "...a window of 12 over an image of 9"},
      {OnePooling("kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1"),
       "y: pooling 2x4x5x7(data); 0"},
      {OnePooling("kernel_h: 2"), "...kernel_size, kernel_h and kernel_w"},
      {OnePooling("kernel_size: 2 pad: 2"), "...pad 2 of a window of 2; expected a smaller one"},
      {OnePooling("global_pooling: true kernel_size: 3"), "...global_pooling and a kernel"},
      {OnePooling("global_pooling: true stride: 2"), "...global_pooling with a pad or stride"},
      {OnePooling("pool: STOCHASTIC kernel_size: 2 stride: 2"), "y: opaque 2x4x5x5(data); 0"},
  });
  const auto image = Import(
      "layer { name: 'i' type: 'Input' top: 'i' input_param { shape { dim: [1, 3, 56, 56] } } }" +
      LayerText("y", "Pooling", "i", "pooling_param { kernel_size: 1 stride: 2 }"));
  EXPECT_EQ(Listing(*image).back(), "y: pooling 2x3x29x29(i)");
}

TEST(CaffeLayers, AxesAreThoseOfTheFile) {
  ExpectReadings({
      {OneLayer("InnerProduct", "inner_product_param { num_output: 10 }"),
       "y: fully_connected 2x10x1x1(data); 3250"},
      {OneLayer("InnerProduct", "inner_product_param { num_output: 10 axis: 3 }"),
       "y: opaque 2x4x9x10(data); 100"},
      {OneLayer("InnerProduct", "inner_product_param { num_output: 10 axis: -2 bias_term: false }"),
       "y: opaque 2x4x1x10(data); 810"},
      {OneLayer("InnerProduct", "inner_product_param { num_output: 10 axis: 4 }"),
       "...axis 4 of a bottom of 4 axes; expected -4 to 3"},
      {OneLayer("InnerProduct", "inner_product_param { num_output: 10 axis: 0 }"),
       "...'InnerProduct' (node 'y': along axis 0, the batch)"},
      {OneLayer("Softmax"), "y: softmax 2x4x9x9(data); 0"},
      {OneLayer("Softmax", "softmax_param { axis: 2 }"), "y: opaque 2x4x9x9(data); 0"},
      {OneLayer("LRN", "lrn_param { norm_region: WITHIN_CHANNEL }"), "y: opaque 2x4x9x9(data); 0"},
      {OneLayer("LRN", "lrn_param { local_size: 4 }"), "...local_size 4; expected an odd number"},
      {OneLayer("Flatten"), "y: flatten 2x324x1x1(data); 0"},
      {OneLayer("Flatten", "flatten_param { axis: 2 }"), "y: reshape 2x4x1x81(data); 0"},
      {OneLayer("Flatten", "flatten_param { end_axis: 2 }"), "y: reshape 2x36x1x9(data); 0"},
      {OneLayer("Flatten", "flatten_param { axis: 0 }"), "..., which moves the batch"},
      {OneLayer("Reshape", "reshape_param { shape { dim: [0, 2, -1, 9] } }"),
       "y: reshape 2x2x18x9(data); 0"},
      {OneLayer("Reshape", "reshape_param { shape { dim: [6, -1] } axis: 1 num_axes: 2 }"),
       "y: reshape 2x6x6x9(data); 0"},
      {OneLayer("Reshape", "reshape_param { shape { dim: [0, 5, -1] } }"), "...as many numbers"},
      {OneLayer("MVN"), "y: opaque 2x4x9x9(data); 0"},
      {OneLayer("Tile", "tile_param { axis: 2 tiles: 3 }"), "y: opaque 2x4x27x9(data); 0"},
      {OneLayer("Reduction", "reduction_param { axis: 2 }"), "y: opaque 2x4x1x1(data); 0"},
      {OneLayer("ArgMax"), "y: opaque 2x1x1x1(data); 0"},
      {OneLayer("ArgMax", "argmax_param { axis: 1 top_k: 2 }"), "y: opaque 2x2x9x9(data); 0"},
      {OneLayer("ArgMax", "argmax_param { axis: 1 top_k: 5 }"), "...top_k 5 of 4"},
      {OneLayer("Permute", "permute_param { order: [0, 2, 3, 1] }"), "y: opaque 2x9x9x4(data); 0"},
      {OneLayer("Permute", "permute_param { order: [0, 2, 4] }"), "...expected each axis once"},
      {OneLayer("Normalize", "norm_param { across_spatial: false channel_shared: false }"),
       "y: opaque 2x4x9x9(data); 4"},
      {OneLayer("PReLU"), "y: activation 2x4x9x9(data); 4"},
      {OneLayer("PReLU", "prelu_param { channel_shared: true }"), "y: activation 2x4x9x9(data); 1"},
      {OneLayer("Concat", "bottom: 'data' concat_param { axis: 3 }"),
       "y: concat 2x4x9x18(data, data); 0"},
      {OneLayer("Concat", "bottom: 'data' concat_param { axis: 0 }"), "...along axis 0, the batch"},
      {"layer { name: 'y' type: 'Slice' bottom: 'data' top: 'p' top: 'q' "
       "slice_param { slice_point: 1 } }",
       "y: padding 2x1x9x9(data); y_1: padding 2x3x9x9(data); 0"},
      {"layer { name: 'y' type: 'Slice' bottom: 'data' top: 'p' top: 'q' slice_param { axis: 2 } }",
       "...0 slice_point of 9 for 2 tops"},
      {OneConvolution("kernel_size: 5") +
           LayerText("c", "Crop", "data", "bottom: 'y' crop_param { axis: 1 offset: [1, 2, 3] }"),
       "y: convolution 2x2x5x5(data); c: padding 2x2x5x5(data); 202"},
  });
}

TEST(CaffeLayers, ScalesAndBiases) {
  const auto scale = [](const std::string& more) {
    return OneLayer("Scale", "scale_param { " + more + " }");
  };
  const std::string flat =
      LayerText("f", "Pooling", "data", "pooling_param { global_pooling: true }") +
      LayerText("g", "Flatten", "f");
  const std::string both = "f: global_pooling 2x4x1x1(data); g: flatten 2x4x1x1(f); ";
  ExpectReadings({
      {scale("bias_term: true"), "y: scale 2x4x9x9(data); 8"},
      {scale("axis: 1 num_axes: -1"), "y: opaque 2x4x9x9(data); 324"},
      {scale("axis: 2 num_axes: 1 bias_term: true"), "y: opaque 2x4x9x9(data); 18"},
      {scale("num_axes: 0"), "y: scale 2x4x9x9(data); 1"},
      {scale("axis: 0"), "...axis 0: parameters of each image"},
      {scale("axis: 2 num_axes: 3"), "...num_axes 3 from axis 2 of 2x4x9x9 on"},
      {OneLayer("Bias", "bias_param { num_axes: 3 }"), "y: opaque 2x4x9x9(data); 324"},
      {flat + OneLayer("Scale", "bottom: 'g' scale_param { axis: 0 }"),
       both + "y: multiply 2x4x9x9(data, g); 0"},
      {flat + OneLayer("Bias", "bottom: 'g' bias_param { axis: 0 }"),
       both + "y: opaque 2x4x9x9(data, g); 0"},
      {OneLayer("Bias", "bottom: 'data' bias_param { axis: 0 }"), "y: add 2x4x9x9(data, data); 0"},
      {flat + OneLayer("Scale", "bottom: 'g'"),
       "...a second bottom of 2x4 from axis 1 of 2x4x9x9 on"},
      {flat + OneLayer("Scale", "bottom: 'g' scale_param { axis: 0 bias_term: true }"),
       "...bias_term of a scale that is a bottom"},
      {OneLayer("Eltwise", "bottom: 'data' eltwise_param { operation: MAX }"),
       "y: opaque 2x4x9x9(data, data); 0"},
      {OneLayer("Eltwise", "bottom: 'data' eltwise_param { coeff: 1 }"),
       "...1 coeff; expected none"},
      {flat + OneLayer("Eltwise", "bottom: 'g'"), "...bottoms of 2x4x9x9 and 2x4"},
  });
}

TEST(CaffeLayers, ANormalizationThatAnotherLayerReadsStays) {
  const std::string bn = LayerText("b", "BatchNorm", "data");
  const std::string scale = LayerText("s", "Scale", "b", "scale_param { bias_term: true }");
  ExpectReadings({
      {bn + scale, "b: batch_normalization 2x4x9x9(data); 8"},
      {bn + scale + LayerText("z", "Eltwise", "b", "bottom: 's'"),
       "b: batch_normalization 2x4x9x9(data); s: scale 2x4x9x9(b); z: add 2x4x9x9(b, s); 8"},
      {LayerText("b", "BatchNorm", "data", "batch_norm_param { use_global_stats: true }") + scale,
       "b: scale 2x4x9x9(data); s: scale 2x4x9x9(b); 8"},
      {LayerText("b", "BatchNorm", "data", "phase: TEST"), "b: scale 2x4x9x9(data); 0"},
      {LayerText("b", "BatchNorm", "data", "param { lr_mult: 1 }"), "...lr_mult of statistics"},
      {LayerText("b", "BatchNorm", "data", "param { } param { } param { }"),
       "b: batch_normalization 2x4x9x9(data); 0"},
  });
}

TEST(CaffeParameters, LayersOfOneNameShareThem) {
  const auto conv = [](const std::string& name, const std::string& more) {
    return LayerText(name, "Convolution", "data",
                     more + " convolution_param { num_output: 2 kernel_size: 3 }");
  };
  const auto count = [](const std::string& layers) {
    const Result<Graph> graph = Import(layers);
    return graph.ok() ? std::to_string(*ParameterCount(*graph)) : graph.message();
  };
  const std::string w = "param { name: 'w' } ";
  EXPECT_EQ(count(conv("a", w) + conv("b", w)), "76") << "each has its own bias";
  EXPECT_EQ(count(conv("a", w + "param { name: 'b' }") + conv("b", w + "param { name: 'b' }")),
            "74");
  EXPECT_EQ(count(conv("a", w)), "74");
  EXPECT_EQ(count(conv("a", "param { lr_mult: 0 } param { lr_mult: 2 }")), "2");
  EXPECT_EQ(count(conv("a", w) + conv("b", "param { name: 'w' lr_mult: 0 }")), "4");
  EXPECT_THAT(count(conv("a", "param { name: 'w' lr_mult: 1 }") +
                    conv("b", "param { name: 'w' lr_mult: 0 }")),
              HasSubstr("param 'w' has another lr_mult in a layer before it"));
  EXPECT_THAT(count(conv("a", w) + LayerText("b", "InnerProduct", "data",
                                             w + "inner_product_param { num_output: 2 }")),
              HasSubstr("node 'b': param 'w' has other extents in a layer before it"));
  const std::string four =
      LayerText("p", "Pooling", "data", "pooling_param { global_pooling: true }");
  EXPECT_EQ(count(conv("a", w) + four +
                  LayerText("b", "InnerProduct", "p",
                            "param { name: 'w' share_mode: PERMISSIVE } "
                            "inner_product_param { num_output: 18 bias_term: false }")),
            "74")
      << "72 numbers in another order";
  EXPECT_THAT(count(conv("a", "param { } param { } param { }")),
              HasSubstr("3 param; expected 0 to 2"));
  EXPECT_EQ(
      count("layer { name: 'c' type: 'Convolution' bottom: 'data' bottom: 'data' top: 'p' top: 'q' "
            "convolution_param { num_output: 2 kernel_size: 3 } }"),
      "74")
      << "two tops, one filter";
  EXPECT_EQ(
      count("layers { name: 'a' type: CONVOLUTION bottom: 'data' top: 'a' blobs_lr: 0 blobs_lr: 1 "
            "convolution_param { num_output: 2 kernel_size: 3 } }"),
      "2");
}

TEST(CaffeNets, TheStateSaysWhichLayersRun) {
  const auto runs = [](const std::string& state, const std::string& rules) {
    const auto graph = Import(state + OneLayer("ReLU") + LayerText("z", "TanH", "data", rules));
    return graph.ok() ? Listing(*graph).size() == 3 : false;
  };
  EXPECT_FALSE(runs("", "include { phase: TEST }"));
  EXPECT_TRUE(runs("", "exclude { phase: TEST }"));
  EXPECT_FALSE(runs("", "include { stage: 'deploy' }"));
  EXPECT_TRUE(runs("", "include { phase: 0 not_stage: 'deploy' }"));
  EXPECT_FALSE(runs("", "include { min_level: 1 }"));
  EXPECT_TRUE(runs("state { phase: TEST }", "include { phase: TEST }"));
  EXPECT_TRUE(runs("state { level: 3 stage: 'big' }", "include { min_level: 1 stage: 'big' }"));
  EXPECT_FALSE(runs("state { level: 3 }", "include { max_level: 2 }"));
  ExpectReadings({
      {OneLayer("ReLU", "include { } exclude { }"), "...include and exclude; expected one of them"},
      {OneLayer("ReLU", "include { phase: TEST }") + LayerText("z", "ReLU", "y"),
       "node 'z': bottom 'y'; expected the top of a layer before it: layer 'y' has it, and does "
       "not "
       "run in phase TRAIN without stages"},
  });
}

TEST(CaffeNets, LossesMakeTheirTops) {
  const std::string truth =
      "layer { name: 't' type: 'Input' top: 't' input_param { shape { dim: 2 } } }";
  const std::string fc =
      LayerText("fc", "InnerProduct", "data", "inner_product_param { num_output: 3 }");
  const auto loss = [&](const std::string& bottom, const std::string& label) {
    return truth + fc + "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: '" + bottom +
           "' bottom: '" + label + "' }";
  };
  ExpectReadings({
      {loss("fc", "t"), "fc: fully_connected 2x3x1x1(data); l: softmax 2x3x1x1(fc); 975"},
      {loss("data", "t"), "...labels of 2 for 2x4x9x9; expected one for each softmax"},
      {fc + "layer { name: 'l' type: 'EuclideanLoss' bottom: 'fc' bottom: 'fc' }",
       "fc: fully_connected 2x3x1x1(data); l: opaque 2x1x1x1(fc, fc); 975"},
      {truth + LayerText("z", "ReLU", "t"), "...bottom 't' is a label, a loss, an index"},
  });
}

TEST(CaffeRefusal, WhatCaffeRefuses) {
  ExpectReadings({
      {OneConvolution("kernel_size: 3 padding: 1"),
       "node 'y': line 1: 'convolution_param' has no field 'padding'"},
      {OneConvolution("kernel_size: 3 bias_terms: true"),
       "...'bias_terms'; did you mean bias_term?"},
      {OneConvolution("kernel_size: 3 num_output: 3"), "...num_output: twice; expected it once"},
      {OneConvolution("kernel_size: -3"), "...kernel_size: '-3'; expected a whole number from 0"},
      {OneConvolution("kernel_size: 3 bias_term: maybe"),
       "...bias_term: 'maybe'; expected true or false"},
      {OnePooling("pool: MIDDLE"), "...pool: 'MIDDLE'; expected one of MAX AVE STOCHASTIC"},
      {OneLayer("ReLU", "blobs { }"), "...blobs: weights in a text are not read"},
      {OneLayer("ReLU", "relu_param: 3"), "...relu_param: '3'; expected a message"},
      {"base_lr: 0.1" + OneLayer("ReLU"), "line 1: a network has no field 'base_lr'"},
      {OneLayer("ReLU") + LayerText("z", "ReLU", "data", "top: 'x'"), "...2 tops; expected 1"},
      {OneLayer("ReLU") + "layer { name: 'z' type: 'TanH' bottom: 'data' top: 'y' }",
       "...top 'y' is the top of a layer before it, too; expected one layer"},
      {"layer { name: 'z' type: 'Pooling' bottom: 'data' top: 'data' "
       "pooling_param { kernel_size: 2 } }",
       "...top 'data' overwrites a bottom of other extents; expected another top"},
      {OneLayer("ReLU", "loss_weight: 1 loss_weight: 1"), "...2 loss_weight for 1 tops"},
      {OneLayer("ReLU", "propagate_down: true propagate_down: true"), "...2 propagate_down"},
      {"layers { name: 'v' type: RELU bottom: 'data' top: 'v' }" + OneLayer("ReLU"),
       "layer and layers; expected one syntax"},
      {"layer { name: 'i' type: 'Input' top: 'i' input_param { shape { dim: [-1, 3, 8, 8] } } }",
       "...extent -1 of its input; expected 1 or more"},
  });
}

TEST(CaffeRefusal, UnknownLayersAreListedTogether) {
  const std::string layers = LayerText("n", "Warp", "data") + LayerText("p", "Interp", "n") +
                             LayerText("q", "Interp", "p") +
                             LayerText("c", "Concat", "q", "bottom: 'p' concat_param { axis: 0 }");
  EXPECT_EQ(Import(layers).message(),
            "net.prototxt: unsupported operators: 'Concat' (node 'c': along axis 0, the batch); "
            "'Interp' (node 'p' and 1 more); 'Warp' (node 'n')");
  const auto passed = Import(layers + LayerText("r", "ReLU", "c"), {.pass_through = true});
  ASSERT_TRUE(passed.ok()) << passed.message();
  EXPECT_THAT(Listing(*passed),
              ElementsAre("data: input 2x4x9x9()", "r: activation 2x4x9x9(data)"));
  const std::string source = "layer { name: 'feed' type: 'Python' top: 'x' top: 'label' }" +
                             LayerText("r", "ReLU", "x") + LayerText("o", "Odd", "r");
  EXPECT_EQ(ImportCaffe(source, "net.prototxt").message(),
            "net.prototxt: unsupported operators: 'Odd' (node 'o'); 'Python' (node 'feed')");
  EXPECT_THAT(ImportCaffe(source, "net.prototxt", {.pass_through = true}).message(),
              HasSubstr("node 'feed': type 'Python' is not known, and it has no bottom"));
  const auto given =
      ImportCaffe(source, "net.prototxt", {.pass_through = true, .input = {3, 8, 8}});
  ASSERT_TRUE(given.ok()) << given.message();
  EXPECT_THAT(Listing(*given), ElementsAre("feed: input 2x3x8x8()", "r: activation 2x3x8x8(feed)"));
}

TEST(CaffeRefusal, NamesFileLayerAndValue) {
  EXPECT_EQ(Import(LayerText("c", "Convolution", "data", "convolution_param { num_output: many }"))
                .message(),
            "net.prototxt: node 'c': line 1: num_output: 'many'; expected a whole number from 0 to "
            "2147483647");
  EXPECT_EQ(Import(LayerText("r", "ReLU", "nothing")).message(),
            "net.prototxt: node 'r': bottom 'nothing'; expected the top of a layer before it");
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
