// Tests graphs against plain loops on small integers. Some graphs have operations before the
// convolution. Others have a sum over each channel, a concatenation or the gradients of a batch
// normalisation after the convolution.
#include <algorithm>

#include "tests/unit/host/cudnn/backend_graph.h"

namespace hostgpu::test {
namespace {

constexpr int kReadsX = CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
              kReadsB = CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
              kWritesY = CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
constexpr auto kStatistics = CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR;
constexpr auto kConcatenation = CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR;
constexpr auto kGradients = CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR;

// Holds a graph that is being built, and the tensors with which it runs.
struct StagedGraph {
  explicit StagedGraph(const ConvolutionCase& c) : convolution(c) {
    std::mt19937 random(23);
    convolution.FillAll(random);
  }

  Descriptor& Add(const DeviceTensor& tensor) {
    ids.push_back(static_cast<int64_t>(ids.size()) + 1);
    pointers.push_back(tensor.data);
    return builder.Tensor(ids.back(), tensor.type, convolution.Pick(tensor.dims),
                          convolution.Pick(tensor.strides));
  }
  Descriptor& AddVirtual(const DeviceTensor& like, DataType type) {
    return builder.Tensor(next_virtual++, type, convolution.Pick(like.dims),
                          convolution.Pick(like.strides), {16, true});
  }
  // Makes a tensor with one value for each channel.
  DeviceTensor& Channels(int channels, DataType type) {
    std::mt19937 random(static_cast<unsigned>(per_channel.size()));
    DeviceTensor& tensor =
        per_channel.emplace_back(Index{1, channels, 1, 1, 1}, convolution.problem.layout, type);
    tensor.Fill(random);
    return tensor;
  }
  // Runs the graph's only engine in exactly the workspace that it asks for.
  void Run() {
    Plan plan;
    ASSERT_TRUE(plan.Build(builder.Finish(), 0, 0));
    json = plan.Json();
    DeviceMemory workspace(static_cast<size_t>(plan.Workspace()));
    ASSERT_OK(plan.Run(convolution.handle, ids, pointers, workspace.data));
    Plan none;
    EXPECT_FALSE(none.Build(builder.graph(), 1, 0));
  }

  Convolution convolution;
  GraphBuilder builder;
  std::list<DeviceTensor> per_channel;
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  int64_t next_virtual = 100;
  std::string json;
};

std::vector<ConvolutionCase> StagedCases(Operation operation) {
  std::vector<ConvolutionCase> cases;
  for (const DataType type : {DataType::kFloat, DataType::kHalf}) {
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      ConvolutionCase c{.operation = operation, .type = type, .layout = layout, .pad = {0, 1, 1}};
      c.x[0] = 3;
      cases.push_back(c);
    }
  }
  return cases;
}

// Adds relu(x * scale + bias) before the convolution, and writes the result to the host copy of x.
Descriptor& ScaleBiasRelu(StagedGraph& g) {
  DeviceTensor& x = g.convolution.x;
  DeviceTensor& scale = g.Channels(x.dims[1], x.type);
  DeviceTensor& bias = g.Channels(x.dims[1], x.type);
  Descriptor& scaled = g.AddVirtual(x, DataType::kFloat);
  Descriptor& biased = g.AddVirtual(x, DataType::kFloat);
  Descriptor& active = g.AddVirtual(x, DataType::kFloat);
  g.builder.Apply(CUDNN_POINTWISE_MUL, {},
                  {{kReadsX, &g.Add(x)}, {kReadsB, &g.Add(scale)}, {kWritesY, &scaled}});
  g.builder.Apply(CUDNN_POINTWISE_ADD, {},
                  {{kReadsX, &scaled}, {kReadsB, &g.Add(bias)}, {kWritesY, &biased}});
  g.builder.Apply(CUDNN_POINTWISE_RELU_FWD, {}, {{kReadsX, &biased}, {kWritesY, &active}});
  x.ForEach([&](const Index& at) {
    const Index channel = {0, at[1], 0, 0, 0};
    x.Set(at, std::max(x.At(at) * scale.At(channel) + bias.At(channel), 0.0));
  });
  return active;
}

TEST(GraphStages, ScaleBiasReluConvolutionAndItsStatistics) {
  for (const ConvolutionCase& c : StagedCases(Operation::kForward)) {
    StagedGraph g(c);
    DeviceTensor& y = g.convolution.y;
    DeviceTensor& sum = g.Channels(y.dims[1], DataType::kFloat);
    DeviceTensor& squares = g.Channels(y.dims[1], DataType::kFloat);
    Descriptor& active = ScaleBiasRelu(g);
    Descriptor& result = g.Add(y);
    g.builder.Convolve(c, active, g.Add(g.convolution.w), result);
    Descriptor& statistics =
        g.builder.Operate(kStatistics, {},
                          {{CUDNN_ATTR_OPERATION_GENSTATS_XDESC, {&result}},
                           {CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, {&g.Add(sum)}},
                           {CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, {&g.Add(squares)}}});
    ASSERT_OK(statistics.Finalize());
    g.Run();
    g.convolution.ComputeExpected();
    EXPECT_TRUE(y.Matches());
    std::vector<double> sums(y.dims[1]), of_squares(y.dims[1]);
    y.ForEach([&](const Index& at) {
      sums[at[1]] += y.At(at);
      of_squares[at[1]] += y.At(at) * y.At(at);
    });
    for (int channel = 0; channel < y.dims[1]; ++channel) {
      sum.Set({0, channel, 0, 0, 0}, sums[channel]);
      squares.Set({0, channel, 0, 0, 0}, of_squares[channel]);
    }
    EXPECT_TRUE(sum.Matches());
    EXPECT_TRUE(squares.Matches());
    EXPECT_NE(std::string::npos, g.json.find("GEN_STATS"));
  }
}

TEST(GraphStages, ScaleBiasReluBeforeAGradientOfTheFilter) {
  for (const ConvolutionCase& c : StagedCases(Operation::kBackwardFilter)) {
    StagedGraph g(c);
    Descriptor& active = ScaleBiasRelu(g);
    g.builder.Convolve(c, active, g.Add(g.convolution.w), g.Add(g.convolution.y));
    g.Run();
    g.convolution.ComputeExpected();
    EXPECT_TRUE(g.convolution.w.Matches());
  }
}

// Concatenates the negated result of a convolution and the tensor `other`. With `in_place`, `other`
// is not copied, because its part of the output is already there.
TEST(GraphStages, ConcatenationOfChannels) {
  for (const bool in_place : {true, false}) {
    for (const ConvolutionCase& c : StagedCases(Operation::kForward)) {
      StagedGraph g(c);
      std::mt19937 random(5);
      const DeviceTensor& y = g.convolution.y;
      Index dims = y.dims;
      dims[1] = 3;
      DeviceTensor other(dims, c.layout, c.type);
      other.Fill(random);
      dims[1] += y.dims[1];
      DeviceTensor all(dims, c.layout, c.type);
      all.Fill(random);
      Descriptor& result = g.AddVirtual(y, DataType::kFloat);
      Descriptor& narrowed = g.AddVirtual(y, c.type);
      g.builder.Convolve(c, g.Add(g.convolution.x), g.Add(g.convolution.w), result);
      g.builder.Apply(CUDNN_POINTWISE_NEG, {}, {{kReadsX, &result}, {kWritesY, &narrowed}});
      Descriptor& concatenation =
          g.builder.Operate(kConcatenation,
                            {{CUDNN_ATTR_OPERATION_CONCAT_AXIS, 1},
                             {CUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX, in_place ? 1 : -1}},
                            {{CUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS, {&narrowed, &g.Add(other)}},
                             {CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC, {&g.Add(all)}}});
      ASSERT_OK(concatenation.Finalize());
      g.Run();
      g.convolution.ComputeExpected();
      all.ForEach([&](const Index& at) {
        Index from = at;
        from[1] -= y.dims[1];
        if (from[1] < 0) all.Set(at, -y.At(at));
        if (from[1] >= 0 && !in_place) all.Set(at, other.At(from));
      });
      EXPECT_TRUE(all.Matches()) << in_place;
    }
  }
}

TEST(GraphStages, GradientsOfBatchNormalisation) {
  ConvolutionCase c{.type = DataType::kHalf};
  StagedGraph g(c);
  DeviceTensor& dy = g.convolution.y;
  DeviceTensor x(dy.dims, c.layout, c.type);
  std::mt19937 random(3);
  x.Fill(random);
  const int channels = dy.dims[1];
  DeviceTensor& mean = g.Channels(channels, DataType::kFloat);
  DeviceTensor& inverse = g.Channels(channels, DataType::kFloat);
  DeviceTensor& scale = g.Channels(channels, DataType::kFloat);
  std::array<DeviceTensor*, 5> outputs;
  for (DeviceTensor*& output : outputs) output = &g.Channels(channels, DataType::kFloat);
  Descriptor& gradient = g.Add(dy);
  g.builder.Convolve(c, g.Add(g.convolution.x), g.Add(g.convolution.w), gradient);
  Descriptor& weights = g.builder.Operate(
      kGradients, {},
      {{CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, {&g.Add(x)}},
       {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, {&gradient}},
       {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, {&g.Add(mean)}},
       {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, {&g.Add(inverse)}},
       {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, {&g.Add(scale)}},
       {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, {&g.Add(*outputs[0])}},
       {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, {&g.Add(*outputs[1])}},
       {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, {&g.Add(*outputs[2])}},
       {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, {&g.Add(*outputs[3])}},
       {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, {&g.Add(*outputs[4])}}});
  ASSERT_OK(weights.Finalize());
  g.Run();
  g.convolution.ComputeExpected();
  for (DeviceTensor* output : outputs) output->Download();
  const double count = dy.dims[0] * dy.dims[3] * dy.dims[4];
  for (int channel = 0; channel < channels; ++channel) {
    const Index at_channel = {0, channel, 0, 0, 0};
    const double m = mean.At(at_channel), r = inverse.At(at_channel), s = scale.At(at_channel);
    double of_scale = 0, of_bias = 0;
    dy.ForEach([&](const Index& at) {
      if (at[1] != channel) return;
      of_scale += dy.At(at) * (x.At(at) - m) * r;
      of_bias += dy.At(at);
    });
    EXPECT_EQ(of_scale, outputs[0]->At(at_channel));
    EXPECT_EQ(of_bias, outputs[1]->At(at_channel));
    // The three other outputs are factors that give dx from dy and x, by the formula of batch
    // normalisation.
    dy.ForEach([&](const Index& at) {
      if (at[1] != channel) return;
      const double normalised = (x.At(at) - m) * r;
      const double dx = s * r * (dy.At(at) - of_bias / count - normalised * of_scale / count);
      const double made = outputs[2]->At(at_channel) * dy.At(at) +
                          outputs[3]->At(at_channel) * x.At(at) + outputs[4]->At(at_channel);
      // `made` is a sum of three terms of at most 64 in magnitude, whose factors are rounded to
      // fp32.
      EXPECT_NEAR(dx, made, 4 * 64 * 0x1p-24);
    });
  }
}

TEST(GraphStages, ShapesThatDoNotFitAreRefused) {
  const ConvolutionCase c;
  StagedGraph sums(c), parts(c);
  const DeviceTensor& y = sums.convolution.y;
  DeviceTensor& fewer = sums.Channels(y.dims[1] - 1, DataType::kFloat);
  Descriptor& statistics =
      sums.builder.Operate(kStatistics, {},
                           {{CUDNN_ATTR_OPERATION_GENSTATS_XDESC, {&sums.Add(y)}},
                            {CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, {&sums.Add(fewer)}},
                            {CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, {&sums.Add(fewer)}}});
  EXPECT_OK(statistics.Finalize());
  Plan plan;
  EXPECT_FALSE(plan.Build(sums.builder.Finish(), 0, 0));
  Descriptor& part = parts.Add(y);
  Descriptor& concatenation =
      parts.builder.Operate(kConcatenation, {{CUDNN_ATTR_OPERATION_CONCAT_AXIS, 1}},
                            {{CUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS, {&part, &part}},
                             {CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC, {&parts.Add(y)}}});
  EXPECT_EQ(concatenation.Finalize(), CUDNN_STATUS_BAD_PARAM);
}

// A virtual tensor has no memory, so it cannot already be in the output's memory.
TEST(GraphStages, AVirtualTensorIsNotInPlace) {
  ConvolutionCase c;
  StagedGraph g(c);
  const DeviceTensor& y = g.convolution.y;
  Descriptor& result = g.AddVirtual(y, c.type);
  g.builder.Convolve(c, g.Add(g.convolution.x), g.Add(g.convolution.w), result);
  Descriptor& concatenation = g.builder.Operate(
      kConcatenation,
      {{CUDNN_ATTR_OPERATION_CONCAT_AXIS, 1}, {CUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX, 0}},
      {{CUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS, {&result}},
       {CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC, {&g.Add(y)}}});
  ASSERT_OK(concatenation.Finalize());
  Plan plan;
  EXPECT_FALSE(plan.Build(g.builder.Finish(), 0, 0));
}

}  // namespace
}  // namespace hostgpu::test
