// Tests that convolutions of 8-bit integers are exact in every result type and in both APIs.
#include "tests/unit/host/cudnn/backend_graph.h"

namespace hostgpu::test {
namespace {

ConvolutionCase Int8Case(DataType y_type) {
  return {.type = DataType::kInt8,
          .y_type = y_type,
          .layout = Layout::kNhwc,
          .x = {5, 16, 1, 6, 5},
          .w = {4, 16, 1, 3, 2},
          .pad = {0, 1, 1}};
}

// Fills x and w with numbers from -128 to 127, so that sums exceed the range of int8.
void FillLarge(Convolution& c) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> values(-128, 127);
  for (DeviceTensor* tensor : {&c.x, &c.w}) {
    tensor->FillWith([&](const Index&) { return values(random); });
  }
  c.y.Upload();
}

TEST(GraphInt8, EveryTypeOfResultAgreesWithNaiveLoops) {
  for (const DataType y_type : {DataType::kInt32, DataType::kInt8, DataType::kFloat}) {
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      ConvolutionCase c = Int8Case(y_type);
      c.layout = layout;
      Convolution convolution(c);
      FillLarge(convolution);
      const ConvolutionGraph graph(convolution);
      Plan plan;
      ASSERT_TRUE(plan.Build(graph.graph, 0, 0));
      EXPECT_EQ(0, plan.Workspace());
      EXPECT_OK(Execute(plan, convolution, nullptr));
      convolution.ComputeExpected();
      EXPECT_TRUE(convolution.y.Matches()) << static_cast<int>(y_type);
    }
  }
}

TEST(GraphInt8, SumsBeyondTheIntegersOfFp32AreExact) {
  ConvolutionCase c = Int8Case(DataType::kInt32);
  c.x = {1, 1280, 1, 1, 1};
  c.w = {4, 1280, 1, 1, 1};
  c.pad = {0, 0, 0};
  Convolution convolution(c);
  for (DeviceTensor* tensor : {&convolution.x, &convolution.w}) {
    tensor->FillWith([](const Index& at) { return at[1] == 0 ? 1 : 127; });
  }
  convolution.y.Upload();
  const ConvolutionGraph graph(convolution);
  Plan plan;
  ASSERT_TRUE(plan.Build(graph.graph, 0, 0));
  EXPECT_OK(Execute(plan, convolution, nullptr));
  convolution.ComputeExpected();
  EXPECT_EQ(1279 * 127 * 127 + 1, convolution.y.At({0, 0, 0, 0, 0}));
  EXPECT_TRUE(convolution.y.Matches());
}

// cudnn-frontend's sample has such a graph: the accumulated result is virtual, and an identity
// copies it.
TEST(GraphInt8, AVirtualResultKeepsItsType) {
  Convolution c(Int8Case(DataType::kInt32));
  FillLarge(c);
  GraphBuilder builder;
  const auto tensor = [&](const DeviceTensor& of, int64_t id, bool is_virtual) -> Descriptor& {
    return builder.Tensor(id, of.type, c.Pick(of.dims), c.Pick(of.strides), {16, is_virtual});
  };
  const Descriptor& sums = tensor(c.y, 10, true);
  builder.Convolve(c.problem, tensor(c.x, 1, false), tensor(c.w, 2, false), sums);
  builder.Apply(CUDNN_POINTWISE_IDENTITY, {},
                {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &sums},
                 {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &tensor(c.y, 3, false)}});
  Plan plan;
  ASSERT_TRUE(plan.Build(builder.Finish(), 0, 0));
  DeviceMemory workspace(static_cast<size_t>(plan.Workspace()));
  EXPECT_OK(Execute(plan, c, workspace.data));
  c.ComputeExpected();
  EXPECT_TRUE(c.y.Matches());
}

TEST(GraphInt8, GradientsAndOtherResultsAreRefused) {
  ConvolutionCase refused[3] = {Int8Case(DataType::kInt8), Int8Case(DataType::kInt8),
                                Int8Case(DataType::kHalf)};
  refused[0].operation = Operation::kBackwardData;
  refused[1].operation = Operation::kBackwardFilter;
  for (const ConvolutionCase& c : refused) {
    Convolution convolution(c);
    const ConvolutionGraph graph(convolution);
    Plan plan;
    EXPECT_FALSE(plan.Build(graph.graph, 0, 0));
  }
}

// These are INT8_CONFIG and INT8_EXT_CONFIG of cuDNN's legacy API.
TEST(LegacyInt8, PrecomputedImplicitGemmAgreesWithNaiveLoops) {
  for (const DataType y_type : {DataType::kInt8, DataType::kFloat}) {
    ConvolutionCase c = Int8Case(y_type);
    c.flip = true;
    Convolution convolution(c);
    FillLarge(convolution);
    size_t bytes = 1;
    EXPECT_OK(convolution.WorkspaceSize(1, &bytes));
    EXPECT_EQ(0U, bytes);
    EXPECT_OK(convolution.Run(1, nullptr, 0));
    convolution.ComputeExpected();
    EXPECT_TRUE(convolution.y.Matches()) << static_cast<int>(y_type);
  }
}

TEST(LegacyInt8, WhatCudnnDoesNotServeIsRefused) {
  size_t bytes = 0;
  Convolution served(Int8Case(DataType::kInt8));
  EXPECT_EQ(served.WorkspaceSize(0, &bytes), CUDNN_STATUS_NOT_SUPPORTED);
  ConvolutionCase rows = Int8Case(DataType::kInt8);
  rows.layout = Layout::kNchw;
  ConvolutionCase channels = Int8Case(DataType::kInt8);
  channels.x[1] = channels.w[1] = 6;
  ConvolutionCase sums = Int8Case(DataType::kInt32);
  ConvolutionCase gradient = Int8Case(DataType::kInt8);
  gradient.operation = Operation::kBackwardData;
  for (const ConvolutionCase& c : {rows, channels, sums, gradient}) {
    Convolution refused(c);
    EXPECT_EQ(refused.WorkspaceSize(1, &bytes), CUDNN_STATUS_NOT_SUPPORTED);
  }
}

}  // namespace
}  // namespace hostgpu::test
