// Tests small ONNX models that a reader easily misreads: models that mix images, sums of tensors of
// different ranks, layers that several nodes read, resizes and edge cases. The expected shapes come
// from onnx.reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/graph/shapes.h"
#include "unit/planner/onnx_model.h"

namespace ucudnn::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Opaque& LastOpaque(const Graph& graph) { return std::get<Opaque>(graph.nodes.back().op); }

// Makes a model in which the batch is a number and not a symbol.
OnnxModel OfBatch(int64_t batch, const std::vector<int64_t>& extents) {
  OnnxModel model(extents);
  auto* type = model.graph().mutable_input(0)->mutable_type();
  type->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_value(batch);
  return model;
}

TEST(OnnxCases, WhatMixesImagesIsRefusedByName) {
  const std::vector<int64_t> image = {4, 8, 8};
  const std::vector<OnnxModel> models = {
      OnnxModel().Node("Softmax", {"x"}, "y").With("axis", {0}),
      OnnxModel().Node("ReduceMean", {"x"}, "y").With("axes", {0, 2, 3}),
      OnnxModel().Node("ReduceMean", {"x"}, "y"),
      OfBatch(8, {8}).Node("Transpose", {"x"}, "t").Node("MatMul", {"t", "x"}, "y"),
      OfBatch(8, image)
          .Weight("w", {2, 8, 3, 3})
          .Node("Transpose", {"x"}, "t")
          .With("perm", {1, 0, 2, 3})
          .Node("Conv", {"t", "w"}, "y"),
      OfBatch(8, {8})
          .Weight("w", {64, 3})
          .Numbers("s", {1, -1})
          .Node("Reshape", {"x", "s"}, "r")
          .Node("Gemm", {"r", "w"}, "y"),
      OfBatch(8, image).Numbers("1", {1}).Numbers("2", {2}).Node("Slice", {"x", "1", "2"}, "y"),
      OfBatch(8, image).Numbers("s", {3, 4, 8, 8}).Node("Resize", {"x", "", "", "s"}, "y"),
      OfBatch(8, image).Numbers("repeats", {2, 1, 1, 1}).Node("Tile", {"x", "repeats"}, "y")};
  for (const OnnxModel& model : models) {
    EXPECT_THAT(Refusal(model), HasSubstr("'y': that mixes images")) << &model - models.data();
  }
}

// ONNX's broadcasting aligns the last axes. The sum of [N, 4, 1, 1] and [N, 4] would have the shape
// [N, 4, N, 4], which mixes images.
TEST(OnnxCases, RanksMeetFromTheLastAxis) {
  for (OnnxModel sum : {OnnxModel(), OfBatch(1, {4, 8, 8}), OfBatch(4, {4, 8, 8})}) {
    sum.Node("GlobalAveragePool", {"x"}, "mean").Node("Flatten", {"mean"}, "flat");
    sum.Node("Add", {"flat", "mean"}, "y");
    EXPECT_THAT(Refusal(sum), HasSubstr("'Add' (node 'y': "));
  }
  // With a batch of 1, `flat` has the shape [1, 8]. Each of its 8 numbers multiplies a column of x.
  OnnxModel gate = OfBatch(1, {8, 16, 8});
  gate.Node("GlobalAveragePool", {"x"}, "mean").Node("Flatten", {"mean"}, "flat");
  gate.Node("Mul", {"x", "flat"}, "y");
  EXPECT_THAT(gate.Nodes(),
              ElementsAre("mean: global_pooling 2x8x1x1(x)", "y.axes: reshape 2x1x1x8(mean)",
                          "y: opaque 2x8x16x8(x, y.axes)"));
  EXPECT_EQ(LastOpaque(*gate.Import()).channel_parts, 8);
}

TEST(OnnxCases, ASoftmaxMixesTheAxesThatItsOpsetSays) {
  const struct {
    int64_t opset;
    int64_t axis;
    int32_t parts;
    bool rows;
    bool columns;
  } kCases[] = {{13, 2, 4, false, true},
                {13, 3, 4, true, false},
                {11, 1, 1, false, false},
                {11, 2, 4, false, false},
                {11, 3, 4, true, false}};
  for (const auto& [opset, axis, parts, rows, columns] : kCases) {
    OnnxModel model;
    model.Opset(opset).Node("Softmax", {"x"}, "y").With("axis", {axis});
    const Graph graph = *model.Import();
    EXPECT_EQ(LastOpaque(graph).channel_parts, parts) << opset << " " << axis;
    EXPECT_EQ(LastOpaque(graph).rows, rows) << opset << " " << axis;
    EXPECT_EQ(LastOpaque(graph).columns, columns) << opset << " " << axis;
  }
  OnnxModel channels;
  channels.Node("Softmax", {"x"}, "y").With("axis", {1});
  EXPECT_THAT(channels.Nodes(), ElementsAre("y: softmax 2x4x8x8(x)"));
}

TEST(OnnxCases, GemmAddsWhateverItsThirdInputIs) {
  const struct {
    std::vector<int64_t> dims;  // of the constant
    bool is_computed;
    float beta;
    int64_t parameters;
    size_t nodes;
  } kCases[] = {{{10}, false, 1, 256 * 10 + 10, 2}, {{1, 10}, false, 1, 256 * 10 + 10, 2},
                {{1}, false, 1, 256 * 10, 2},       {{10}, false, 0, 256 * 10, 2},
                {{}, true, 1, 2 * 256 * 10, 4},     {{}, true, 0, 256 * 10, 2}};
  for (const auto& [dims, is_computed, beta, parameters, nodes] : kCases) {
    OnnxModel model;
    model.Node("Flatten", {"x"}, "f").Weight("w", {256, 10}).Weight("v", {256, 10});
    model.Weight("c", dims).Node("MatMul", {"f", "v"}, "computed");
    model.Node("Gemm", {"f", "w", is_computed ? "computed" : "c"}, "y").WithReal("beta", beta);
    const auto graph = model.Output("y").Import();
    ASSERT_TRUE(graph.ok()) << graph.message();
    EXPECT_EQ(*ParameterCount(*graph), parameters);
    EXPECT_EQ(graph->nodes.size(), nodes);
    EXPECT_EQ((*InferShapes(*graph, 2)).back().c, 10);
  }
  OnnxModel wrong;
  wrong.Node("Flatten", {"x"}, "f").Weight("w", {256, 10}).Node("Gemm", {"f", "w", "f"}, "y");
  EXPECT_EQ(Refusal(wrong),
            "net.onnx: node 'y': a bias whose extents do not meet; expected equal "
            "ones or 1");
}

TEST(OnnxCases, LayersWithTwoReadersStayAsTheyAre) {
  OnnxModel bias;
  bias.Weight("w", {4, 4, 1, 1}).Weight("b", {1, 4, 1, 1}).Node("Conv", {"x", "w"}, "conv");
  bias.Node("Add", {"conv", "b"}, "biased").Node("Concat", {"conv", "biased"}, "y");
  bias.With("axis", {1});
  EXPECT_THAT(bias.Nodes(),
              ElementsAre("conv: convolution 2x4x8x8(x)", "biased: scale 2x4x8x8(conv)",
                          "y: concat 2x8x8x8(conv, biased)"));
  OnnxModel swish;
  swish.Node("Sigmoid", {"x"}, "gate").Node("Mul", {"x", "gate"}, "product");
  swish.Node("Concat", {"gate", "product"}, "y").With("axis", {1});
  EXPECT_THAT(swish.Nodes(),
              ElementsAre("gate: activation 2x4x8x8(x)", "product: multiply 2x4x8x8(x, gate)",
                          "y: concat 2x8x8x8(gate, product)"));
}

TEST(OnnxCases, ResizesOfSomeAxesAndInProportion) {
  const struct {
    std::vector<int64_t> sizes;
    std::vector<int64_t> axes;
    const char* policy;
    const char* node;
  } kCases[] = {{{32, 16}, {3, 2}, "stretch", "y: upsampling 2x4x16x32(x)"},
                {{16, 32}, {2, 3}, "not_larger", "y: upsampling 2x4x16x16(x)"},
                {{16, 32}, {2, 3}, "not_smaller", "y: upsampling 2x4x32x32(x)"},
                {{12, 8}, {2, 3}, "stretch", "y: opaque 2x4x12x8(x)"}};
  for (const auto& [sizes, axes, policy, node] : kCases) {
    OnnxModel model;
    model.Numbers("sizes", sizes).Node("Resize", {"x", "", "", "sizes"}, "y").With("axes", axes);
    model.WithText("keep_aspect_ratio_policy", policy);
    EXPECT_THAT(model.Nodes(), ElementsAre(node));
  }
  OnnxModel roi;
  roi.Numbers("sizes", {1, 4, 16, 16}).Node("Resize", {"x", "", "", "sizes"}, "y");
  roi.WithText("coordinate_transformation_mode", "tf_crop_and_resize");
  EXPECT_THAT(Refusal(roi), HasSubstr("'Resize' (node 'y': of a part of the image)"));
}

TEST(OnnxCases, PaddingByOtherThanZerosMixesItsAxes) {
  for (const char* mode : {"reflect", "wrap", "edge"}) {
    OnnxModel model;
    model.Numbers("pads", {0, 0, 2, 0, 0, 0, 1, 0}).Node("Pad", {"x", "pads"}, "y");
    model.WithText("mode", mode);
    EXPECT_THAT(model.Nodes(), ElementsAre("y: opaque 2x4x11x8(x)"));
    const Graph graph = *model.Import();
    EXPECT_FALSE(LastOpaque(graph).rows);
    EXPECT_TRUE(LastOpaque(graph).columns);
  }
}

TEST(OnnxCases, InputsOfOneNetworkHaveOneBatch) {
  OnnxModel model;
  auto* other = model.graph().add_input();
  other->set_name("z");
  auto* shape = other->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const int64_t extent : {1, 4, 8, 8}) shape->add_dim()->set_dim_value(extent);
  model.Node("Add", {"x", "z"}, "y");
  EXPECT_EQ(Refusal(model),
            "net.onnx: node 'y': input 'z': batch 1 beside inputs of another batch");
}

TEST(OnnxCases, AnInputWithoutAxesHasTheBatchEvenIfThatIsTooLarge) {
  constexpr int64_t kImages = int64_t{1} << 31;
  OnnxModel model;
  model.graph()
      .mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(kImages);
  auto* number = model.graph().add_input();
  number->set_name("z");
  number->mutable_type()->mutable_tensor_type()->mutable_shape();
  model.Node("Add", {"z", "x"}, "y");
  EXPECT_EQ(Refusal(model),
            "net.onnx: node 'y': input 'z': batch 2147483648 beside inputs of another batch");
}

TEST(OnnxCases, NormalizationsByPositionHaveTheirNumbers) {
  OnnxModel model;
  for (const char* name : {"s", "b", "m", "v"}) model.Weight(name, {4, 8, 8});
  model.Opset(7).Node("BatchNormalization", {"x", "s", "b", "m", "v"}, "y").With("spatial", {0});
  EXPECT_THAT(model.Nodes(), ElementsAre("y: batch_normalization 2x4x8x8(x)"));
  EXPECT_EQ(*ParameterCount(*model.Import()), 2 * 256);
}

// No exporter writes such files, but somebody might, to harm the reader.
TEST(OnnxCases, HostileFilesAreRefused) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  OnnxModel twice;
  twice.Node("Relu", {"x"}, "y").Node("Relu", {"y"}, "y");
  EXPECT_EQ(Refusal(twice), "net.onnx: node 'y': output 'y' is there already; expected a new name");
  OnnxModel none;
  none.Node("Expand", {}, "e").Node("Tile", {""}, "t").Node("Add", {"e", "x"}, "y");
  EXPECT_THAT(Refusal(none), HasSubstr("'Add' (node 'y': of a constant whose shape no rule gives"));
  OnnxModel deep;
  deep.Numbers("axes", std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  deep.Node("Unsqueeze", {"x", "axes"}, "y");
  EXPECT_EQ(Refusal(deep), "net.onnx: node 'y': 17 axes; expected at most 16");
  OnnxModel tile;
  tile.Numbers("repeats", {1, 1, 1, 2147483647}).Node("Tile", {"x", "repeats"}, "y");
  EXPECT_EQ(Refusal(tile), "net.onnx: node 'y': an extent 17179869176; expected 32 bits");
  OnnxModel batch = OfBatch(most, {4, 8, 8});
  batch.Node("Relu", {"x"}, "y");
  EXPECT_THAT(Refusal(batch), HasSubstr("batch 9223372036854775807 "));
  OnnxModel nothing;
  nothing.Numbers("no", {}).Node("Cast", {"no"}, "c").With("to", {1}).Node("Add", {"x", "c"}, "y");
  EXPECT_FALSE(nothing.Import().ok());
  OnnxModel constant;
  constant.Weight("w", {2, 2}).Node("Relu", {"x"}, "r").Node("MatMul", {"w", "w"}, "y");
  constant.Output("y");
  EXPECT_THAT(Refusal(constant), HasSubstr("no layers; expected a network"));
}

// The constants have 4,096 numbers, which is more than any shape has.
TEST(OnnxCases, ConstantsThatCostMuchAreNotComputed) {
  OnnxModel model;
  model.Numbers("many", std::vector<int64_t>(4096, 1)).Weight("w", {2, 4, 3, 3});
  std::string last = "many";
  for (int i = 0; i < 2000; ++i) {
    const std::string next = "sum" + std::to_string(i);
    model.Node("Add", {last, "many"}, next);
    last = next;
  }
  model.Node("Sum", std::vector<std::string>(20000, "many"), "sum").Node("Conv", {"x", "w"}, "y");
  EXPECT_THAT(model.Nodes(), ElementsAre("y: convolution 2x2x6x6(x)"));
}

}  // namespace
}  // namespace ucudnn::planner
