// Tests how the ONNX reader reads transformers: views of tokens, attentions, and fused linear
// layers that compute queries, keys and values together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/graph/shapes.h"
#include "unit/planner/imports.h"
#include "unit/planner/onnx_model.h"

namespace ucudnn::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Appends an attention with 3 heads for tokens with 12 channels, as exporters write it.
void Attend(OnnxModel& model, const std::string& q, const std::string& k, const std::string& v) {
  model.Numbers("heads", {0, -1, 3, 4}).Numbers("joined", {0, -1, 12}).Weight("root", {});
  model.Node("Reshape", {q, "heads"}, "qh").Node("Transpose", {"qh"}, "qt");
  model.With("perm", {0, 2, 1, 3});
  model.Node("Reshape", {k, "heads"}, "kh").Node("Transpose", {"kh"}, "kt");
  model.With("perm", {0, 2, 3, 1});
  model.Node("Reshape", {v, "heads"}, "vh").Node("Transpose", {"vh"}, "vt");
  model.With("perm", {0, 2, 1, 3});
  model.Node("MatMul", {"qt", "kt"}, "scores").Node("Div", {"scores", "root"}, "scaled");
  model.Node("Softmax", {"scaled"}, "weights").With("axis", {-1});
  model.Node("MatMul", {"weights", "vt"}, "attended").Node("Transpose", {"attended"}, "back");
  model.With("perm", {0, 2, 1, 3}).Node("Reshape", {"back", "joined"}, "out");
}

OnnxModel Tokens() { return OnnxModel({16, 12}); }

const Attention& AttentionOf(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (const auto* attention = std::get_if<Attention>(&node.op)) return *attention;
  }
  ADD_FAILURE() << "no attention";
  static const Attention kNone;
  return kNone;
}

TEST(OnnxAttention, QueriesKeysAndValuesMeetInOneOperator) {
  OnnxModel model = Tokens();
  for (const std::string name : {"q", "k", "v"}) {
    model.Weight("w" + name, {12, 12}).Node("MatMul", {"x", "w" + name}, name);
  }
  Attend(model, "q", "k", "v");
  EXPECT_THAT(model.Nodes(),
              ElementsAre("q: linear 2x12x1x16(x)", "k: linear 2x12x1x16(x)",
                          "v: linear 2x12x1x16(x)", "attended: attention 2x12x1x16(q, k, v)"));
  const Graph graph = *model.Import();
  EXPECT_EQ(AttentionOf(graph).heads, 3);
  EXPECT_EQ(AttentionOf(graph).keys, 16);
  EXPECT_EQ(AttentionOf(graph).window, (Spatial{0, 0, 0}));
}

TEST(OnnxAttention, KeysMayBeOthersThanQueries) {
  OnnxModel model = Tokens();
  model.Numbers("zero", {0}).Numbers("five", {5}).Numbers("one", {1});
  model.Node("Slice", {"x", "zero", "five", "one"}, "first");
  Attend(model, "x", "first", "first");
  EXPECT_THAT(model.Nodes(), ElementsAre("first: padding 2x12x1x5(x)",
                                         "attended: attention 2x12x1x16(x, first, first)"));
  EXPECT_EQ(AttentionOf(*model.Import()).keys, 5);
}

TEST(OnnxAttention, ASumOverQueriesIsNone) {
  OnnxModel model = Tokens();
  model.Node("Transpose", {"x"}, "t").With("perm", {0, 2, 1}).Node("MatMul", {"x", "t"}, "scores");
  model.Node("Softmax", {"scores"}, "weights").With("axis", {1});
  model.Node("MatMul", {"weights", "x"}, "y");
  EXPECT_THAT(model.Nodes(), ElementsAre(HasSubstr("opaque 2x1x16x16(x, x)"),
                                         "weights: opaque 2x1x16x16(scores.scores)",
                                         "y: opaque 2x1x16x12(weights, x)"));
}

// Returns a model with a linear layer whose 36 outputs are split into queries, keys and values.
OnnxModel Fused() {
  OnnxModel model = Tokens();
  model.Weight("w", {12, 36}).Weight("b", {36}).Node("MatMul", {"x", "w"}, "product");
  model.Node("Add", {"product", "b"}, "qkv").Node("Split", {"qkv"}, "q").And("k").And("v");
  model.With("axis", {2}).With("num_outputs", {3});
  Attend(model, "q", "k", "v");
  return model;
}

TEST(OnnxAttention, AFusedLinearBecomesOneForEachPart) {
  const Graph graph = *Fused().Import();
  EXPECT_THAT(Listing(graph), ElementsAre("x: input 2x12x1x16()", "q: linear 2x12x1x16(x)",
                                          "k: linear 2x12x1x16(x)", "v: linear 2x12x1x16(x)",
                                          "attended: attention 2x12x1x16(q, k, v)"));
  EXPECT_EQ(*ParameterCount(graph), 12 * 36 + 36);
}

TEST(OnnxAttention, AFusedLinearStaysWhereItIsReadOtherwise) {
  OnnxModel read = Fused();
  read.Node("Relu", {"qkv"}, "more");
  OnnxModel output = Fused();
  output.Output("out").Output("qkv");
  for (const OnnxModel& model : {read, output}) {
    const Graph graph = *model.Import();
    EXPECT_EQ(Listing(graph)[1], "product: linear 2x36x1x16(x)");
    EXPECT_EQ(Listing(graph)[2], "q: padding 2x12x1x16(product)");
    EXPECT_EQ(*ParameterCount(graph), 12 * 36 + 36);
  }
}

// Returns a model with attention inside parts of an image of 8 x 8. A part has 4 x 4 adjacent
// positions, as in swin, or if `is_grid` every second row and column, as in maxvit's grid.
OnnxModel Windows(bool is_grid) {
  OnnxModel model({12, 8, 8});
  model.Node("Transpose", {"x"}, "last").With("perm", {0, 2, 3, 1});
  model.Numbers("apart", is_grid ? std::vector<int64_t>{-1, 4, 2, 4, 2, 12}
                                 : std::vector<int64_t>{-1, 2, 4, 2, 4, 12});
  const std::vector<int64_t> order =
      is_grid ? std::vector<int64_t>{0, 2, 4, 1, 3, 5} : std::vector<int64_t>{0, 1, 3, 2, 4, 5};
  const std::vector<int64_t> back =
      is_grid ? std::vector<int64_t>{0, 3, 1, 4, 2, 5} : std::vector<int64_t>{0, 1, 3, 2, 4, 5};
  model.Node("Reshape", {"last", "apart"}, "parts").Node("Transpose", {"parts"}, "turned");
  model.With("perm", order).Numbers("rows", {-1, 16, 12});
  model.Node("Reshape", {"turned", "rows"}, "windows");
  Attend(model, "windows", "windows", "windows");
  model.Numbers("four", {-1, 2, 2, 4, 4, 12}).Numbers("image", {-1, 8, 8, 12});
  model.Node("Reshape", {"out", "four"}, "unrolled").Node("Transpose", {"unrolled"}, "placed");
  model.With("perm", back).Node("Reshape", {"placed", "image"}, "whole");
  model.Node("Transpose", {"whole"}, "first").With("perm", {0, 3, 1, 2});
  return model.Node("Add", {"first", "x"}, "y");
}

TEST(OnnxAttention, WindowsAndGridsOfAnImage) {
  for (const bool is_grid : {false, true}) {
    const OnnxModel model = Windows(is_grid);
    EXPECT_THAT(model.Nodes(), ElementsAre("attended: attention 2x12x8x8(x, x, x)",
                                           "y: add 2x12x8x8(attended, x)"));
    const Attention attention = AttentionOf(*model.Import());
    EXPECT_EQ(attention.heads, 3);
    EXPECT_EQ(attention.keys, 16);
    EXPECT_EQ(attention.window, (is_grid ? Spatial{0, 0, 0} : Spatial{0, 4, 4}));
  }
}

TEST(OnnxAttention, TwoPartsInTheOtherOrderAreARoll) {
  OnnxModel model;
  model.Numbers("zero", {0}).Numbers("three", {3}).Numbers("end", {99}).Numbers("axis", {3});
  model.Node("Slice", {"x", "three", "end", "axis"}, "last");
  model.Node("Slice", {"x", "zero", "three", "axis"}, "first");
  model.Node("Concat", {"last", "first"}, "y").With("axis", {3});
  EXPECT_THAT(model.Nodes(), ElementsAre("y: roll 2x4x8x8(x)"));
  EXPECT_EQ(std::get<Roll>(model.Import()->nodes[1].op).shift, (Spatial{0, 0, 5}));
}

TEST(OnnxAttention, AClassTokenIsAnEdgeWithParameters) {
  OnnxModel model = Tokens();
  model.Weight("token", {1, 1, 12}).Numbers("rest", {1, 12});
  model.Node("Shape", {"x"}, "batch").With("start", {0}).With("end", {1});
  model.Node("Concat", {"batch", "rest"}, "shape").With("axis", {0});
  model.Node("Expand", {"token", "shape"}, "tokens");
  model.Node("Concat", {"tokens", "x"}, "y").With("axis", {1});
  EXPECT_THAT(model.Nodes(), ElementsAre("y: padding 2x12x1x17(x)"));
  const Graph graph = *model.Import();
  EXPECT_EQ(std::get<Padding>(graph.nodes[1].op).before, (Spatial{0, 0, 1}));
  EXPECT_EQ(*ParameterCount(graph), 12) << "copies for each image are no numbers of their own";
}

// Returns a model that gathers the means of channels at the indices step * image + channel, as
// exporters write torch's as_strided.
OnnxModel Strided(int64_t step) {
  OnnxModel model;
  model.Numbers("all", {-1}).Numbers("step", {step}).Numbers("axes", {1, 2, 3}).Numbers("0", {0});
  model.Numbers("1", {1}).Numbers("channels", {0, 1, 2, 3}).Numbers("behind", {0, 2, 3});
  model.Node("GlobalAveragePool", {"x"}, "mean").Node("Reshape", {"mean", "all"}, "flat");
  model.Node("Shape", {"x"}, "batch").With("start", {0}).With("end", {1});
  model.Node("Range", {"0", "batch", "1"}, "images").Node("Mul", {"images", "step"}, "starts");
  model.Node("Unsqueeze", {"starts", "axes"}, "column");
  model.Node("Unsqueeze", {"channels", "behind"}, "row").Node("Add", {"column", "row"}, "indices");
  model.Node("Gather", {"flat", "indices"}, "same").Weight("w", {2, 4, 1, 1});
  return model.Node("Conv", {"same", "w"}, "y");
}

TEST(OnnxView, IndicesThatCountAllNumbersMoveNone) {
  EXPECT_THAT(Strided(4).Nodes(),
              ElementsAre("mean: global_pooling 2x4x1x1(x)", "y: convolution 2x2x1x1(mean)"));
  EXPECT_THAT(Refusal(Strided(5)), HasSubstr("unsupported operators: 'Gather' (node 'same'"));
}

// The model turns patches of 2 x 2 positions into channels, which a linear layer reads along the
// last axis.
TEST(OnnxView, PatchesBecomeChannels) {
  OnnxModel model({12, 8, 8});
  model.Node("Transpose", {"x"}, "last").With("perm", {0, 2, 3, 1});
  model.Numbers("apart", {-1, 4, 2, 4, 2, 12}).Node("Reshape", {"last", "apart"}, "parts");
  model.Node("Transpose", {"parts"}, "turned").With("perm", {0, 1, 3, 4, 2, 5});
  model.Numbers("merged", {-1, 4, 4, 48}).Node("Reshape", {"turned", "merged"}, "patches");
  model.Weight("w", {48, 24}).Node("MatMul", {"patches", "w"}, "y");
  const std::vector<std::string> nodes = model.Nodes();
  ASSERT_EQ(nodes.size(), 1u) << nodes[0];
  EXPECT_EQ(nodes[0], "y: opaque 2x24x4x4(x)");
}

}  // namespace
}  // namespace ucudnn::planner
