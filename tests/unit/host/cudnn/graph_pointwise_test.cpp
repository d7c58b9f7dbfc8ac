// Tests what the stand-in's graphs compute in addition to the convolution: every activation that
// they accept and its gradient, other functions of one or two elements, and a scale, a residual and
// a bias fused after a convolution. Also tests scalars passed by value, and which pointers and
// workspaces are accepted.
#include <cmath>
#include <functional>
#include <numbers>

#include "tests/unit/host/cudnn/backend_graph.h"

namespace hostgpu::test {
namespace {

constexpr int kX = CUDNN_ATTR_OPERATION_POINTWISE_XDESC, kB = CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
              kY = CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
              kDx = CUDNN_ATTR_OPERATION_POINTWISE_DXDESC,
              kDy = CUDNN_ATTR_OPERATION_POINTWISE_DYDESC;

// Tensors are packed fp32 of 2x3x4x5 elements.
constexpr int kElements = 120;
const std::vector<int> kGraphDims = {2, 3, 4, 5}, kGraphStrides = {60, 20, 5, 1};

struct Floats {
  explicit Floats(const std::vector<float>& values) : bytes(values.size() * sizeof(float)) {
    EXPECT_OK(cudaMemcpy(bytes.data, values.data(), values.size() * sizeof(float),
                         cudaMemcpyHostToDevice));
  }
  std::vector<float> Read(size_t count) const {
    std::vector<float> values(count);
    EXPECT_OK(cudaMemcpy(values.data(), bytes.data, count * sizeof(float), cudaMemcpyDeviceToHost));
    return values;
  }
  DeviceMemory bytes;
};

struct Handle {
  Handle() { EXPECT_OK(cudnnCreate(&handle)); }
  ~Handle() { cudnnDestroy(handle); }
  cudnnHandle_t handle = nullptr;
};

// Computes mode(a) or, with two inputs, mode(a, b) of every element.
std::vector<float> Compute(int mode, const GraphBuilder::Parameters& parameters, int to,
                           const std::vector<std::pair<int, const std::vector<float>*>>& inputs) {
  Handle handle;
  GraphBuilder builder;
  GraphBuilder::Operands operands;
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  std::list<Floats> memory;
  const auto add = [&](int name, const std::vector<float>& values) {
    ids.push_back(static_cast<int64_t>(ids.size()) + 1);
    pointers.push_back(memory.emplace_back(values).bytes.data);
    operands.emplace_back(name,
                          &builder.Tensor(ids.back(), DataType::kFloat, kGraphDims, kGraphStrides));
  };
  for (const auto& [name, values] : inputs) add(name, *values);
  add(to, std::vector<float>(kElements));
  builder.Apply(mode, parameters, operands);
  Plan plan;
  EXPECT_TRUE(plan.Build(builder.Finish(), 0, 0)) << mode;
  EXPECT_OK(plan.Run(handle.handle, ids, pointers, nullptr)) << mode;
  return memory.back().Read(kElements);
}

// Returns kElements numbers, 0.05 apart, from `from` on. Callers choose `from` so that no argument
// lies where a function's slope jumps.
std::vector<float> Steps(double from) {
  std::vector<float> values;
  for (int i = 0; i < kElements; ++i) values.push_back(static_cast<float>(from + 0.05 * i));
  return values;
}

void ExpectNear(const std::vector<float>& computed, const std::function<double(int)>& expected,
                double tolerance, int mode) {
  for (int i = 0; i < kElements; ++i) {
    const double want = expected(i);
    ASSERT_NEAR(computed[i], want, tolerance * std::max(1.0, std::abs(want)))
        << "mode " << mode << " element " << i;
  }
}

struct Activation {
  int forward, backward;  // backward is 0 if there is none
  GraphBuilder::Parameters parameters;
  double (*function)(double);
};

// These are the formulas of cuDNN's documentation, in fp64. If a function can be computed by
// several formulas, the formula here differs from the stand-in's.
const std::vector<Activation>& Activations() {
  static const auto* const activations = new std::vector<Activation>{
      {CUDNN_POINTWISE_RELU_FWD,
       CUDNN_POINTWISE_RELU_BWD,
       {},
       [](double x) { return std::max(x, 0.0); }},
      {CUDNN_POINTWISE_RELU_FWD,
       CUDNN_POINTWISE_RELU_BWD,
       {{CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, 2}},
       [](double x) { return std::min(std::max(x, 0.0), 2.0); }},
      {CUDNN_POINTWISE_RELU_FWD,
       CUDNN_POINTWISE_RELU_BWD,
       {{CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.125}},
       [](double x) { return std::max(x, 0.125 * x); }},
      {CUDNN_POINTWISE_TANH_FWD,
       CUDNN_POINTWISE_TANH_BWD,
       {},
       [](double x) { return 1 - 2 / (std::exp(2 * x) + 1); }},
      {CUDNN_POINTWISE_SIGMOID_FWD,
       CUDNN_POINTWISE_SIGMOID_BWD,
       {},
       [](double x) { return (1 + std::tanh(x / 2)) / 2; }},
      {CUDNN_POINTWISE_ELU_FWD,
       CUDNN_POINTWISE_ELU_BWD,
       {{CUDNN_ATTR_POINTWISE_ELU_ALPHA, 1.5}},
       [](double x) { return x > 0 ? x : 1.5 * (std::exp(x) - 1); }},
      {CUDNN_POINTWISE_GELU_FWD,
       CUDNN_POINTWISE_GELU_BWD,
       {},
       [](double x) { return x * std::erfc(-x / std::numbers::sqrt2) / 2; }},
      {CUDNN_POINTWISE_GELU_APPROX_TANH_FWD,
       0,
       {},
       [](double x) {
         const double inner = std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * std::pow(x, 3));
         return x - x / (std::exp(2 * inner) + 1);
       }},
      {CUDNN_POINTWISE_SOFTPLUS_FWD,
       CUDNN_POINTWISE_SOFTPLUS_BWD,
       {{CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, 2}},
       [](double x) { return std::log(1 + std::exp(2 * x)) / 2; }},
      {CUDNN_POINTWISE_SWISH_FWD,
       CUDNN_POINTWISE_SWISH_BWD,
       {{CUDNN_ATTR_POINTWISE_SWISH_BETA, 1.5}},
       [](double x) { return x / (1 + std::exp(-1.5 * x)); }},
      {CUDNN_POINTWISE_IDENTITY, 0, {}, [](double x) { return x; }},
      {CUDNN_POINTWISE_ABS, 0, {}, [](double x) { return std::abs(x); }},
      {CUDNN_POINTWISE_NEG, 0, {}, [](double x) { return -x; }},
      {CUDNN_POINTWISE_EXP, 0, {}, [](double x) { return std::exp(x); }},
      {CUDNN_POINTWISE_ERF, 0, {}, [](double x) { return std::erf(x); }}};
  return *activations;
}

// A bound for the relative error of functions in fp32. Their arguments have a magnitude of up to 3
// and are rounded, too. The error is largest for e^x: a relative error of x becomes a relative
// error of e^x that is x times as large.
constexpr double kTolerance = 16 * 0x1p-24;

TEST(GraphPointwise, EveryActivationIsItsFormula) {
  const std::vector<float> x = Steps(-2.975);
  for (const Activation& activation : Activations()) {
    ExpectNear(
        Compute(activation.forward, activation.parameters, kY, {{kX, &x}}),
        [&](int i) { return activation.function(x[i]); }, kTolerance, activation.forward);
  }
}

TEST(GraphPointwise, EveryGradientIsTheDerivativeOfItsActivation) {
  const std::vector<float> x = Steps(-2.975), dy = Steps(-1.03);
  int gradients = 0;
  for (const Activation& activation : Activations()) {
    if (activation.backward == 0) continue;
    ++gradients;
    constexpr double kStep = 1e-5;  // the central difference is exact to 1e-10
    ExpectNear(
        Compute(activation.backward, activation.parameters, kDx, {{kX, &x}, {kDy, &dy}}),
        [&](int i) {
          return dy[i] * (activation.function(x[i] + kStep) - activation.function(x[i] - kStep)) /
                 (2 * kStep);
        },
        4 * kTolerance, activation.backward);
  }
  EXPECT_EQ(gradients, 9);
}

TEST(GraphPointwise, FunctionsOfPositiveNumbers) {
  const std::vector<float> x = Steps(0.03), b = Steps(0.5);
  const std::pair<int, double (*)(double)> unary[] = {
      {CUDNN_POINTWISE_SQRT, [](double v) { return std::sqrt(v); }},
      {CUDNN_POINTWISE_RSQRT, [](double v) { return std::pow(v, -0.5); }},
      {CUDNN_POINTWISE_RECIPROCAL, [](double v) { return 1 / v; }},
      {CUDNN_POINTWISE_LOG, [](double v) { return std::log(v); }}};
  for (const auto& [mode, function] : unary) {
    const auto expected = [&x, f = function](int i) { return f(x[i]); };
    ExpectNear(Compute(mode, {}, kY, {{kX, &x}}), expected, kTolerance, mode);
  }
  const std::pair<int, double (*)(double, double)> binary[] = {
      {CUDNN_POINTWISE_ADD, [](double a, double c) { return a + c; }},
      {CUDNN_POINTWISE_ADD_SQUARE, [](double a, double c) { return a + c * c; }},
      {CUDNN_POINTWISE_SUB, [](double a, double c) { return a - c; }},
      {CUDNN_POINTWISE_MUL, [](double a, double c) { return a * c; }},
      {CUDNN_POINTWISE_DIV, [](double a, double c) { return a / c; }},
      {CUDNN_POINTWISE_MIN, [](double a, double c) { return std::min(a, c); }},
      {CUDNN_POINTWISE_MAX, [](double a, double c) { return std::max(a, c); }},
      {CUDNN_POINTWISE_POW, [](double a, double c) { return std::pow(a, c); }},
      {CUDNN_POINTWISE_CMP_GT, [](double a, double c) { return a > c ? 1.0 : 0.0; }},
      {CUDNN_POINTWISE_CMP_LE, [](double a, double c) { return a <= c ? 1.0 : 0.0; }}};
  for (const auto& [mode, function] : binary) {
    const auto expected = [&x, &b, f = function](int i) { return f(x[i], b[i]); };
    ExpectNear(Compute(mode, {}, kY, {{kX, &x}, {kB, &b}}), expected, 16 * kTolerance, mode);
  }
}

constexpr int64_t kIdX = 1, kIdW = 2, kIdY = 3, kIdResidual = 4, kIdBias = 5, kIdScale = 6;

// Computes y = relu((convolution + kResidualScale * residual) + bias) * scale, fused as users do
// it, with the scale passed by value.
struct FusedPlan {
  static constexpr double kResidualScale = 2;

  explicit FusedPlan(const ConvolutionCase& c, int64_t residual_alignment = 16)
      : convolution(c),
        residual(c.Output(), c.layout, c.type),
        bias({1, c.w[0], 1, 1, 1}, c.layout, c.type),
        graph(Describe(residual_alignment)) {
    std::mt19937 random(17);
    convolution.FillAll(random);
    residual.Fill(random);
    bias.Fill(random);
  }

  const Descriptor& Describe(int64_t residual_alignment) {
    const Convolution& c = convolution;
    int64_t next_id = 10;
    const auto tensor = [&](const DeviceTensor& of, int64_t id, int64_t alignment) -> Descriptor& {
      return builder.Tensor(id, of.type, c.Pick(of.dims), c.Pick(of.strides), {alignment});
    };
    const auto intermediate = [&]() -> Descriptor& {
      return builder.Tensor(next_id++, DataType::kFloat, c.Pick(c.y.dims), c.Pick(c.y.strides),
                            {16, true});
    };
    const std::vector<int> ones(c.Pick(c.y.dims).size(), 1);
    const Descriptor& scale_tensor =
        builder.Tensor(kIdScale, DataType::kFloat, ones, ones, {16, false, true});
    const Descriptor& result = intermediate();
    const Descriptor& added = intermediate();
    const Descriptor& biased = intermediate();
    const Descriptor& active = intermediate();
    builder.Convolve(c.problem, tensor(c.x, kIdX, 16), tensor(c.w, kIdW, 16), result);
    builder.Apply(
        CUDNN_POINTWISE_ADD, {},
        {{kX, &result}, {kB, &tensor(residual, kIdResidual, residual_alignment)}, {kY, &added}},
        kResidualScale);
    builder.Apply(CUDNN_POINTWISE_ADD, {},
                  {{kX, &added}, {kB, &tensor(bias, kIdBias, 16)}, {kY, &biased}});
    builder.Apply(CUDNN_POINTWISE_RELU_FWD, {}, {{kX, &biased}, {kY, &active}});
    builder.Apply(CUDNN_POINTWISE_MUL, {},
                  {{kX, &active}, {kB, &scale_tensor}, {kY, &tensor(c.y, kIdY, 16)}});
    return builder.Finish();
  }

  cudnnStatus_t Run(const Plan& plan, void* workspace, size_t residual_shift = 0,
                    size_t x_shift = 0) {
    return plan.Run(
        convolution.handle, {kIdX, kIdW, kIdY, kIdResidual, kIdBias, kIdScale},
        {static_cast<char*>(convolution.x.data) + x_shift, convolution.w.data, convolution.y.data,
         static_cast<char*>(residual.data) + residual_shift, bias.data, &scale},
        workspace);
  }

  // Computes the result of a run with the scale `scaled_by`, and writes it to y's host copy.
  void ComputeExpected(double scaled_by) {
    convolution.ComputeExpected();
    convolution.y.ForEach([&](const Index& at) {
      const double sum =
          convolution.y.At(at) + kResidualScale * residual.At(at) + bias.At({0, at[1], 0, 0, 0});
      convolution.y.Set(at, std::max(sum, 0.0) * scaled_by);
    });
  }

  Convolution convolution;
  DeviceTensor residual, bias;
  float scale = 3;
  GraphBuilder builder;
  const Descriptor& graph;
};

TEST(GraphPointwise, ResidualBiasReluAndScaleFusedInEveryEngine) {
  int ran = 0, in_parts = 0;
  for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBfloat16}) {
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      for (const int spatial : {2, 3}) {
        for (int64_t index = 0; index < 4; ++index) {
          for (int64_t knob = 0; knob < 3; ++knob) {
            ConvolutionCase c{.type = type, .spatial = spatial, .layout = layout};
            c.x[0] = 5;  // a batch that 2 or 4 parts cannot divide equally
            FusedPlan fused(c);
            Plan plan;
            if (!plan.Build(fused.graph, index, knob)) continue;
            ++ran;
            in_parts += knob > 0;
            DeviceMemory workspace(static_cast<size_t>(plan.Workspace()));
            ASSERT_OK(fused.Run(plan, workspace.data));
            fused.ComputeExpected(3);
            ASSERT_TRUE(fused.convolution.y.Matches())
                << "type " << static_cast<int>(type) << " layout " << static_cast<int>(layout)
                << " engine " << index << " knob " << knob;
          }
        }
      }
    }
  }
  EXPECT_GT(ran, 24);
  EXPECT_GT(in_parts, 12);
}

TEST(GraphPointwise, AScalarByValueIsReadWhenThePlanIsExecuted) {
  FusedPlan fused{ConvolutionCase{}};
  Plan plan;
  ASSERT_TRUE(plan.Build(fused.graph, 1, 0));
  DeviceMemory workspace(static_cast<size_t>(plan.Workspace()));
  const Stream stream;
  ASSERT_OK(cudnnSetStream(fused.convolution.handle, stream));
  Gate gate;
  gate.Launch(stream);
  EXPECT_OK(fused.Run(plan, workspace.data));
  fused.scale = 100;
  gate.Open();
  EXPECT_OK(cudaStreamSynchronize(stream));
  fused.ComputeExpected(3);
  EXPECT_TRUE(fused.convolution.y.Matches());
}

TEST(GraphPointwise, NothingBehindTheWorkspaceIsTouched) {
  for (int64_t knob = 0; knob < 3; ++knob) {
    FusedPlan fused{ConvolutionCase{}};
    Plan plan;
    ASSERT_TRUE(plan.Build(fused.graph, 1, knob));
    const auto bytes = static_cast<size_t>(plan.Workspace());
    ASSERT_GT(bytes, 0U);
    const TailedWorkspace workspace(bytes);
    ASSERT_OK(fused.Run(plan, workspace.data));
    workspace.ExpectOnlyTheNeedIsWritten();
    fused.ComputeExpected(3);
    EXPECT_TRUE(fused.convolution.y.Matches());
  }
}

TEST(GraphPointwise, AnOperandTakesThePointersItsAlignmentAllows) {
  // The residual is declared with the alignment of single elements. Engine 0 demands no more, so it
  // accepts a residual that begins at any element.
  FusedPlan fused(ConvolutionCase{}, sizeof(float));
  Plan plan;
  ASSERT_TRUE(plan.Build(fused.graph, 0, 0));
  EXPECT_OK(fused.Run(plan, nullptr, sizeof(float)));
  EXPECT_OK(cudaDeviceSynchronize());
}

using GraphFault = DeviceFault;

[[noreturn]] void ExitByOutcome(int64_t engine, size_t residual_shift, size_t x_shift,
                                size_t missing_workspace) {
  FusedPlan fused{ConvolutionCase{}};
  Plan plan;
  if (!plan.Build(fused.graph, engine, 0)) std::_Exit(2);
  const auto bytes = static_cast<size_t>(plan.Workspace());
  DeviceMemory workspace(bytes), small(bytes - std::min(bytes, missing_workspace));
  const cudnnStatus_t status =
      fused.Run(plan, missing_workspace > 0 ? small.data : workspace.data, residual_shift, x_shift);
  test::ExitByOutcome(status, fused.Run(plan, workspace.data));
}

TEST_F(GraphFault, MisalignedPointers) {
  for (int64_t engine = 0; engine < 2; ++engine) {
    EXPECT_EXIT(ExitByOutcome(engine, 0, sizeof(float), 0), testing::ExitedWithCode(0),
                "misaligned address: the image");
    EXPECT_EXIT(ExitByOutcome(engine, sizeof(float), 0, 0), testing::ExitedWithCode(0),
                "misaligned address: an input of a pointwise operation");
  }
}

TEST_F(GraphFault, WorkspaceLargerThanItsAllocation) {
  EXPECT_EXIT(ExitByOutcome(1, 0, 0, 1024), testing::ExitedWithCode(0),
              "illegal address: the workspace");
}

}  // namespace
}  // namespace hostgpu::test
