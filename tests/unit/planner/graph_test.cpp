#include "planner/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/graph/layers.h"
#include "planner/graph/shapes.h"
#include "tests/support/problem.h"

namespace ucudnn::planner {
namespace {

using ::testing::HasSubstr;

Convolution Conv(int32_t filters, int32_t window, int32_t stride, int32_t pad, int32_t groups = 1) {
  Convolution convolution;
  convolution.filters = filters;
  convolution.window = {1, window, window};
  convolution.stride = {1, stride, stride};
  convolution.pad = {0, pad, pad};
  convolution.groups = groups;
  return convolution;
}

Pooling Pool(int32_t window, int32_t stride, int32_t pad, bool round_up) {
  return {PoolingKind::kMaximum, {1, window, window}, {1, stride, stride}, {0, pad, pad}, round_up};
}

// Returns the output shape of `op` for an image of `extent` x `extent` with 8 channels.
Result<Shape> After(const Operator& op, int32_t extent) {
  GraphBuilder builder("net");
  const NodeId data = builder.Add("data", Input{8, {1, extent, extent}, 2}, {});
  builder.Add("node", op, {data});
  UCUDNN_ASSIGN_OR_RETURN(const Graph graph, builder.Build());
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(graph, 3));
  return shapes.back();
}

TEST(Graph, OperatorsGiveTheirShapes) {
  EXPECT_EQ(Describe(*After(Conv(16, 3, 2, 1), 9)), "3x16x5x5");
  EXPECT_EQ(Describe(*After(FullyConnected{10, true}, 9)), "3x10x1x1");
  EXPECT_EQ(Describe(*After(GlobalPooling{}, 9)), "3x8x1x1");
  EXPECT_EQ(Describe(*After(Flatten{}, 9)), "3x648x1x1");
  for (const Operator& op :
       {Operator(Activation{}), Operator(BatchNormalization{}), Operator(Dropout{}),
        Operator(LocalResponseNormalization{}), Operator(Softmax{}), Operator(Concat{})}) {
    EXPECT_EQ(Describe(*After(op, 9)), "3x8x9x9");
  }
}

TEST(Graph, OtherOperatorsGiveTheirShapes) {
  EXPECT_EQ(Describe(*After(Upsampling{{1, 2, 3}}, 9)), "3x8x18x27");
  EXPECT_EQ(Describe(*After(Padding{{0, 1, -2}, {0, 0, 5}}, 9)), "3x8x10x12");
  EXPECT_EQ(Describe(*After(Scale{}, 9)), "3x8x9x9");
  EXPECT_EQ(Describe(*After(Reshape{2, {1, 12, 27}, 2}, 9)), "3x2x12x27");
  EXPECT_EQ(Describe(*After(Reshape{1, {9, 8, 9}, 3}, 9)), "3x1x9x8x9");
  Convolution convolution = Conv(16, 3, 2, 0);
  convolution.extra_pad = {0, 1, 0};
  EXPECT_EQ(Describe(*After(convolution, 8)), "3x16x4x3");
  Pooling pooling = Pool(2, 2, 1, false);
  pooling.extra_pad = {0, -1, 0};
  EXPECT_EQ(Describe(*After(pooling, 7)), "3x8x4x4");
  TransposedConvolution transposed;
  transposed.filters = 4;
  transposed.window = {1, 3, 4};
  transposed.stride = {1, 2, 2};
  transposed.pad = {0, 1, 1};
  EXPECT_EQ(Describe(*After(transposed, 9)), "3x4x17x18");
  transposed.extra_extent = {0, 1, -2};
  EXPECT_EQ(Describe(*After(transposed, 9)), "3x4x18x16");
}

// Applies a transposed convolution and then a convolution with the same window, stride and padding.
// The result has the original shape.
TEST(Graph, ATransposedConvolutionUndoesTheShapeOfAConvolution) {
  for (int32_t window = 1; window <= 4; ++window) {
    for (int32_t stride = 1; stride <= 3; ++stride) {
      for (int32_t extra = 0; extra < stride; ++extra) {
        TransposedConvolution up;
        up.window = {1, window, window};
        up.stride = {1, stride, stride};
        up.extra_extent = {0, extra, extra};
        const int32_t extent = After(up, 7)->extents[1];
        EXPECT_EQ(After(Conv(8, window, stride, 0), extent)->extents[1], 7)
            << window << " stride " << stride << " extra " << extra;
      }
    }
  }
}

Result<Shape> Multiplied(const Spatial& a, const Spatial& b) {
  GraphBuilder builder("net");
  const std::vector<NodeId> inputs = {builder.Add("a", Input{3, a, 2}, {}),
                                      builder.Add("b", Input{3, b, 2}, {})};
  builder.Add("product", Multiply{}, inputs);
  UCUDNN_ASSIGN_OR_RETURN(const Graph graph, builder.Build());
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(graph, 3));
  return shapes.back();
}

TEST(Graph, AGateMultipliesEveryPixel) {
  EXPECT_EQ(Describe(*Multiplied({1, 8, 8}, {1, 1, 1})), "3x3x8x8");
  EXPECT_EQ(Describe(*Multiplied({1, 1, 1}, {1, 8, 8})), "3x3x8x8");
  EXPECT_EQ(Describe(*Multiplied({1, 8, 8}, {1, 8, 8})), "3x3x8x8");
  EXPECT_EQ(Multiplied({1, 8, 8}, {1, 8, 1}).message(),
            "net: node 'product': multiplies 1x3x8x8 and 1x3x8x1; expected equal shapes, or one of "
            "a pixel");
}

// Counts windows by the rule of Caffe and PyTorch when they round up: the last window must start
// inside the image or its left padding.
int PooledRoundingUp(int x, int window, int stride, int pad) {
  int count = 0;
  for (int start = -pad;; start += stride, ++count) {
    const bool fits = start + window <= x + pad;
    const bool hangs_over = start < x && start - stride + window < x + pad;
    if (!fits && !hangs_over) return count;
  }
}

TEST(Graph, PoolingRoundsUpOnlyForWindowsThatStartInside) {
  for (int x = 3; x < 20; ++x) {
    for (int stride = 1; stride <= 4; ++stride) {
      for (int pad = 0; pad <= 1; ++pad) {
        EXPECT_EQ(After(Pool(3, stride, pad, true), x)->extents[1],
                  PooledRoundingUp(x, 3, stride, pad))
            << x << " stride " << stride << " pad " << pad;
        EXPECT_EQ(After(Pool(3, stride, pad, false), x)->extents[1],
                  1 + (x + 2 * pad - 3) / stride);
      }
    }
  }
}

TEST(Graph, BranchesJoinAndAdd) {
  GraphBuilder builder("net");
  const NodeId data = builder.Add("data", Input{3, {1, 8, 8}, 2}, {});
  const NodeId a = builder.Add("a", Conv(4, 1, 1, 0), {data});
  const NodeId b = builder.Add("b", Conv(4, 3, 1, 1), {data});
  const NodeId joined = builder.Add("joined", Concat{}, {a, b, data});
  const NodeId sum = builder.Add("sum", Add{}, {a, b});
  const auto graph = builder.Build();
  ASSERT_TRUE(graph.ok()) << graph.message();
  const auto shapes = InferShapes(*graph, 2);
  ASSERT_TRUE(shapes.ok()) << shapes.message();
  EXPECT_EQ(Describe((*shapes)[static_cast<size_t>(joined)]), "2x11x8x8");
  EXPECT_EQ(Describe((*shapes)[static_cast<size_t>(sum)]), "2x4x8x8");
  EXPECT_EQ(graph->Find("joined")->inputs.size(), 3u);
  EXPECT_EQ(graph->Find("missing"), nullptr);
}

TEST(Graph, ParametersAreWeightsBiasesScalesAndShifts) {
  const Shape input{1, 8, {1, 5, 5}, 2};
  Convolution convolution = Conv(6, 3, 1, 0, 2);
  EXPECT_EQ(ParametersOf(Node{"a", convolution, {}}, input).trained, 6 * (4 * 9 + 1));
  convolution.bias = false;
  EXPECT_EQ(ParametersOf(Node{"a", convolution, {}}, input).trained, 6 * 4 * 9);
  EXPECT_EQ(ParametersOf(Node{"a", FullyConnected{10, true}, {}}, input).trained, 10 * (200 + 1));
  EXPECT_EQ(ParametersOf(Node{"a", FullyConnected{10, false}, {}}, input).trained, 10 * 200);
  EXPECT_EQ(ParametersOf(Node{"a", BatchNormalization{}, {}}, input).trained, 16);
  EXPECT_EQ(ParametersOf(Node{"a", BatchNormalization{false}, {}}, input).trained, 0);
  EXPECT_EQ(ParametersOf(Node{"a", Scale{true, false}, {}}, input).trained, 8);
  TransposedConvolution transposed;
  transposed.filters = 6;
  transposed.window = {1, 3, 3};
  transposed.groups = 2;
  EXPECT_EQ(ParametersOf(Node{"a", transposed, {}}, input).trained, 8 * 3 * 9 + 6);
  EXPECT_EQ(ParametersOf(Node{"a", Pooling{}, {}}, input).trained, 0);
}

TEST(Graph, ThreeDimensionsAreInferredToo) {
  GraphBuilder builder("net");
  const NodeId data = builder.Add("data", Input{2, {9, 8, 7}, 3}, {});
  Convolution convolution = Conv(4, 3, 1, 1);
  convolution.window[0] = 3;
  convolution.stride[0] = 2;
  builder.Add("conv", convolution, {data});
  const auto layers = ConvolutionLayers(*builder.Build(), 5, {Operation::kForward});
  ASSERT_TRUE(layers.ok());
  EXPECT_EQ(layers->front().problem.spatial_rank, 3);
  EXPECT_EQ(OutputExtents(layers->front().problem), (Spatial{4, 8, 7}));
}

TEST(Graph, LayersTakeTypeAndLayout) {
  GraphBuilder builder("net");
  builder.Add("conv", Conv(4, 3, 1, 1), {builder.Add("data", Input{2, {1, 8, 8}, 2}, {})});
  const auto layers = ConvolutionLayers(*builder.Build(), 5, {Operation::kBackwardFilter},
                                        DataType::kHalf, Layout::kNhwc);
  ASSERT_TRUE(layers.ok());
  const ConvolutionProblem expected = test::ProblemWith({.operation = Operation::kBackwardFilter,
                                                         .n = 5,
                                                         .c = 2,
                                                         .k = 4,
                                                         .type = DataType::kHalf,
                                                         .layout = Layout::kNhwc});
  EXPECT_EQ(layers->front(), (Layer{"conv", expected}));
}

// The legacy API pads both ends of an axis by the same amount. If the amounts differ, the layer
// pads both ends by the smaller amount, and its image already includes the rest of the padding.
TEST(Graph, LayersPadTheirImageWhereEndsDiffer) {
  const auto problem = [](const Operator& op) {
    GraphBuilder builder("net");
    builder.Add("conv", op, {builder.Add("data", Input{2, {1, 8, 8}, 2}, {})});
    return (*ConvolutionLayers(*builder.Build(), 5, {Operation::kForward}))[0].problem;
  };
  Convolution convolution = Conv(4, 3, 2, 1);
  convolution.extra_pad = {0, -1, 1};
  EXPECT_EQ(Describe(problem(convolution)),
            "forward 5x2x9x9 -> 4, 3x3 pad 0x1 stride 2x2 fp32 nchw");
  EXPECT_EQ(OutputExtents(problem(convolution)), After(convolution, 8)->extents);
  TransposedConvolution transposed;
  transposed.filters = 4;
  transposed.window = {1, 3, 3};
  transposed.stride = {1, 2, 2};
  transposed.extra_extent = {0, 1, -1};
  EXPECT_EQ(Describe(problem(transposed)),
            "backward_data 5x4x18x17 -> 2, 3x3 pad 0x0 stride 2x2 fp32 nchw");
  EXPECT_EQ(OutputExtents(problem(transposed)), (Spatial{1, 8, 8}));
}

TEST(GraphRefusal, AnImageThatIsPaddedBeforeMustFit) {
  GraphBuilder builder("net");
  Convolution convolution = Conv(1, 2147483647, 1, 0);
  convolution.extra_pad = {0, 2147483647, 2147483647};
  builder.Add("conv", convolution, {builder.Add("data", Input{1, {1, 2, 2}, 2}, {})});
  const auto graph = builder.Build();
  ASSERT_TRUE(graph.ok() || !graph.message().empty());
  if (graph.ok()) {
    EXPECT_THAT(ConvolutionLayers(*graph, 1, {Operation::kForward}).message(),
                HasSubstr("node 'conv': an image of 2147483649 pixels"));
  }
}

TEST(GraphRefusal, NamesTheNodeAndWhatWasExpected) {
  EXPECT_EQ(
      After(Conv(4, 12, 1, 1), 9).message(),
      "net: node 'node': a window of 12 over an image of 9 padded by 1; expected one that fits "
      "inside");
  EXPECT_EQ(After(Conv(4, 3, 1, 1, 3), 9).message(),
            "net: node 'node': 3 groups; expected a divisor of 8 channels and 4 filters");
  EXPECT_THAT(After(Conv(4, 3, 0, 1), 9).message(), HasSubstr("expected positive numbers"));
  EXPECT_THAT(After(Conv(0, 3, 1, 1), 9).message(), HasSubstr("expected positive extents"));
  EXPECT_THAT(After(Conv(4, 3, 1, 1), 0).message(), HasSubstr("node 'data': shape 1x8x0x0"));
  EXPECT_THAT(After(FullyConnected{0, true}, 9).message(), HasSubstr("0 features; expected"));
  EXPECT_THAT(After(Activation{}, 2147483647).message(), HasSubstr("fits 63 bits"));
  GraphBuilder large("net");  // the bytes of a single image exceed the largest int64_t
  large.Add("data", Input{2147483647, {1, 2147483647, 1}, 2}, {});
  EXPECT_THAT(large.Build().message(), HasSubstr("fits 63 bits"));
  EXPECT_THAT(After(FullyConnected{2147483647, true}, 2000).message(),
              HasSubstr("expected of any"));
  EXPECT_THAT(After(Conv(4, 3, 1, 2147483647), 9).message(), HasSubstr("padded by 2147483647"));
  Convolution odd = Conv(4, 3, 1, 1);
  odd.extra_pad = {0, -2, 0};
  EXPECT_THAT(After(odd, 9).message(), HasSubstr("pad 0x1x1 and 0x-1x1, dilation"));
  EXPECT_THAT(After(Upsampling{{1, 0, 1}}, 9).message(), HasSubstr("expected positive factors"));
  EXPECT_THAT(After(Padding{{0, -9, 0}, {0, 0, 0}}, 9).message(),
              HasSubstr("padding by 0x-9x0 and 0x0x0; expected 1 to"));
  EXPECT_EQ(After(Reshape{8, {1, 9, 8}, 2}, 9).message(),
            "net: node 'node': reshapes 1x8x9x9 to 1x8x9x8; expected as many numbers");
  const int32_t many = 2147483647;
  EXPECT_THAT(After(Reshape{many, {many, many, many}, 3}, 9).message(), HasSubstr("63 bits"));
  EXPECT_THAT(After(Reshape{-8, {1, -9, 9}, 2}, 9).message(), HasSubstr("positive extents"));
  TransposedConvolution up;
  up.pad = {0, 5, 5};
  EXPECT_THAT(After(up, 9).message(), HasSubstr("an output of no pixels along an axis"));
}

TEST(GraphRefusal, TheFirstFaultIsReported) {
  GraphBuilder twice("net");
  const NodeId data = twice.Add("data", Input{}, {});
  twice.Add("data", Activation{}, {data});
  twice.Add("", Activation{}, {data});
  EXPECT_EQ(twice.Build().message(), "net: node 'data': occurs twice; expected a name of its own");

  GraphBuilder backwards("net");
  backwards.Add("relu", Activation{}, {0});
  EXPECT_EQ(backwards.Build().message(), "net: node 'relu': input 0; expected an earlier node");

  GraphBuilder lonely("net");
  lonely.Add("sum", Add{}, {lonely.Add("data", Input{}, {})});
  EXPECT_EQ(lonely.Build().message(), "net: node 'sum': 1 inputs; expected two or more inputs");
}

TEST(GraphRefusal, AddAndConcatWantFittingShapes) {
  GraphBuilder add("net");
  add.Add("sum", Add{},
          {add.Add("a", Input{3, {1, 8, 8}, 2}, {}), add.Add("b", Input{4, {1, 8, 8}, 2}, {})});
  EXPECT_EQ(add.Build().message(),
            "net: node 'sum': adds 1x3x8x8 and 1x4x8x8; expected equal shapes");
  GraphBuilder join("net");
  join.Add("both", Concat{},
           {join.Add("a", Input{3, {1, 8, 8}, 2}, {}), join.Add("b", Input{3, {1, 9, 8}, 2}, {})});
  EXPECT_THAT(join.Build().message(),
              HasSubstr("joins 1x3x8x8 and 1x3x9x8; expected equal extents"));
}

TEST(GraphRefusal, ABatchMustBePositiveAndFit) {
  GraphBuilder builder("net");
  builder.Add("data", Input{2147483647, {1, 1024, 1024}, 2}, {});
  const auto graph = builder.Build();
  ASSERT_TRUE(graph.ok()) << graph.message();
  EXPECT_EQ(InferShapes(*graph, 0).message(), "net: batch 0; expected 1 or more");
  EXPECT_THAT(InferShapes(*graph, 2147483647).message(), HasSubstr("fits 63 bits"));
}

}  // namespace
}  // namespace ucudnn::planner
