// Tests graphs in which pointwise operations follow the convolution, on the stand-in's real
// arithmetic. Their pieces compute what the undivided plan and plain loops compute. If a graph is
// not divided, the report says why.
#include <gmock/gmock.h>

#include <set>
#include <string>

#include "base/byte_size.h"
#include "graph_program.h"

namespace ucudnn::interposer {
namespace {

using test::FusedStep;
using test::FusedTensor;
using ::testing::HasSubstr;

constexpr int kImages = 7;

struct FusedCase {
  const char* name;
  Operation operation;
  GraphOptions options;
  const char* text;  // what follows the number in the engine's name
  DataType type = DataType::kFloat;
  Layout layout = Layout::kNchw;
  int rank = 2;
};
void PrintTo(const FusedCase& given, std::ostream* out) { *out << given.name; }

ConvolutionProblem ProblemOf(const FusedCase& given) {
  ConvolutionProblem problem = Problem(given.operation, given.type);
  problem.n = kImages;
  problem.layout = given.layout;
  if (given.rank == 3) {
    problem.spatial_rank = 3;
    problem.x = {5, 6, 4};
    problem.w = {3, 3, 3};
    problem.pad = {1, 1, 1};
  }
  SetPackedStrides(problem);
  return problem;
}

int64_t Offset(const Strides& strides, int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) {
  return n * strides[0] + c * strides[1] + d * strides[2] + h * strides[3] + w * strides[4];
}

// Calls visit(x, w, y) for each product of the convolution. x, w and y are the offsets of an
// element of the image, of the filter and of the output.
template <typename Visit>
void ForEachProduct(const ConvolutionProblem& p, const Visit& visit) {
  const Spatial y = OutputExtents(p);
  const Strides filter = PackedStrides(p.layout, p.c, p.w);
  for (int64_t n = 0; n < p.n; ++n)
    for (int64_t k = 0; k < p.k; ++k)
      for (int64_t c = 0; c < p.c; ++c)
        for (int out = 0; out < y[0] * y[1] * y[2]; ++out)
          for (int tap = 0; tap < p.w[0] * p.w[1] * p.w[2]; ++tap) {
            const int at[] = {out / (y[1] * y[2]), out / y[2] % y[1], out % y[2]};
            const int of[] = {tap / (p.w[1] * p.w[2]), tap / p.w[2] % p.w[1], tap % p.w[2]};
            int from[3];
            bool inside = true;
            for (int axis = 0; axis < 3; ++axis) {
              from[axis] = at[axis] + of[axis] - p.pad[axis];
              inside &= from[axis] >= 0 && from[axis] < p.x[axis];
            }
            if (!inside) continue;
            visit(Offset(p.x_strides, n, c, from[0], from[1], from[2]),
                  Offset(filter, k, c, of[0], of[1], of[2]),
                  Offset(p.y_strides, n, k, at[0], at[1], at[2]));
          }
}

// Computes the graph in plain loops over the contents of `operands`.
Values Reference(const ConvolutionProblem& problem, const GraphOptions& options,
                 const Operands& operands) {
  const bool forward = problem.operation == Operation::kForward;
  const Values x = operands.Content(test::kUidX), w = operands.Content(test::kUidW),
               y = operands.Content(test::kUidY);
  Values result(forward ? y.size() : x.size());
  ForEachProduct(problem, [&](int64_t image, int64_t tap, int64_t output) {
    forward ? result[output] += x[image] * w[tap] : result[image] += y[output] * w[tap];
  });
  const Strides& strides = forward ? problem.y_strides : problem.x_strides;
  const Spatial extents = forward ? OutputExtents(problem) : problem.x;
  const int64_t channels = forward ? problem.k : problem.c;
  const std::vector<FusedTensor> tensors = FusedTensors(problem, options);
  auto tensor = tensors.begin();
  for (const FusedStep& step : options.steps) {
    Values read;
    std::vector<int64_t> steps;  // the operand's strides; 0 along an axis where it has one value
    if (step.reads != Reads::kNothing) {
      read = operands.Content(tensor->uid);
      for (size_t i = 0; i < tensor->dims.size(); ++i) {
        steps.push_back(tensor->dims[i] == 1 ? 0 : tensor->strides[i]);
      }
      if (problem.spatial_rank == 2) steps.insert(steps.begin() + 2, 0);
      ++tensor;
    }
    for (int64_t n = 0; n < problem.n; ++n)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t d = 0; d < extents[0]; ++d)
          for (int64_t h = 0; h < extents[1]; ++h)
            for (int64_t i = 0; i < extents[2]; ++i) {
              float& value = result[Offset(strides, n, c, d, h, i)];
              const float other = read.empty() ? 0
                                               : read[n * steps[0] + c * steps[1] + d * steps[2] +
                                                      h * steps[3] + i * steps[4]];
              switch (step.mode) {
                case CUDNN_POINTWISE_MUL:
                  value *= other;
                  break;
                case CUDNN_POINTWISE_ADD:
                  value += other;
                  break;
                case CUDNN_POINTWISE_SUB:
                  value = step.reads_first ? other - value : value - other;
                  break;
                case CUDNN_POINTWISE_RELU_FWD:
                  value = std::max(value, 0.f);
                  break;
                case CUDNN_POINTWISE_RELU_BWD:
                  value = other > 0 ? value : 0;
                  break;
                default:
                  ADD_FAILURE() << "a step without a loop";
              }
            }
  }
  return result;
}

class GraphFused : public ::testing::TestWithParam<FusedCase> {};

// The store has short times for pieces of three images and of one image, so the pieces of the seven
// images have 3, 3 and 1.
TEST_P(GraphFused, UnevenPiecesGiveWhatTheWholeAndPlainLoopsGive) {
  const ConvolutionProblem problem = ProblemOf(GetParam());
  const GraphOptions& graph_options = GetParam().options;
  Options options = test::Planned();
  options.policy = BatchSizePolicy::kAll;
  Program program(options);
  const cudnn::PlanDevice device{program.handle};
  const test::Graph plain(problem, graph_options, program.real, device);
  program.Measured(plain, kEngine, 100);
  for (const int images : {1, 3}) {
    program.Measured({WithBatch(problem, images), graph_options, program.real, device}, kEngine, 1);
  }
  const auto whole = plain.Plan(kEngine);
  ASSERT_TRUE(whole);
  const auto read = cudnn::ReadTemplate(program.real, whole->get());
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->convolution.engine.Text(), "graph:" + std::to_string(kEngine) + GetParam().text);
  EXPECT_EQ(read->convolution.problem.x_strides, problem.x_strides);
  EXPECT_EQ(read->convolution.problem.y_strides, problem.y_strides);

  const test::Graph hooked(problem, graph_options, program.hooked, device);
  const auto plan = hooked.Plan(kEngine);
  ASSERT_TRUE(plan);
  const size_t need = *cudnn::PlanWorkspace(program.real, whole->get());
  for (int seed = 0; seed < 3; ++seed) {
    Operands undivided(problem, graph_options, need);
    Operands divided(problem, graph_options, *cudnn::PlanWorkspace(program.hooked, plan->get()));
    undivided.Fill(seed);
    divided.Fill(seed);
    const Values expected = Reference(problem, graph_options, divided);
    ASSERT_EQ(undivided.Execute(program.real, program.handle, whole->get()), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(divided.Execute(program.hooked, program.handle, plan->get()), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(divided.Output(), undivided.Output());
    EXPECT_EQ(divided.Output(), expected);
    EXPECT_TRUE(divided.GuardsAreIntact());
    for (const FusedTensor& tensor : FusedTensors(problem, graph_options)) {
      EXPECT_EQ(divided.Content(tensor.uid), undivided.Content(tensor.uid)) << tensor.uid;
    }
  }
  const auto report = program.Report();
  EXPECT_EQ(report["fallbacks"].dump(), "[]");
  const auto& runs = report["kernels"][0]["plan"];
  ASSERT_EQ(runs.size(), 2u) << report.dump(1);
  std::multiset<int> pieces;
  for (const auto& run : runs) {
    for (int i = 0; i < run["count"].get<int>(); ++i) pieces.insert(run["micro_batch"].get<int>());
  }
  EXPECT_EQ(pieces, (std::multiset<int>{1, 3, 3}));
}

GraphOptions Steps(std::vector<FusedStep> steps) {
  GraphOptions options;
  options.steps = std::move(steps);
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, GraphFused,
    ::testing::Values(
        FusedCase{"scale", Operation::kForward, Scaled(), "+scale"},
        FusedCase{"scale_nhwc_fp16", Operation::kForward, Scaled(), "+scale", DataType::kHalf,
                  Layout::kNhwc},
        FusedCase{"scale_bias_relu", Operation::kForward, ScaledBiasRelu(), "+scale+bias+relu"},
        FusedCase{"scale_bias_relu_nhwc", Operation::kForward, ScaledBiasRelu(), "+scale+bias+relu",
                  DataType::kFloat, Layout::kNhwc},
        FusedCase{"scale_bias_relu_3d", Operation::kForward, ScaledBiasRelu(), "+scale+bias+relu",
                  DataType::kFloat, Layout::kNchw, 3},
        FusedCase{"scale_fp32_of_fp16", Operation::kForward,
                  Steps({{CUDNN_POINTWISE_MUL, Reads::kChannel, DataType::kFloat}}), "+scale:fp32",
                  DataType::kHalf},
        FusedCase{"drelu", Operation::kBackwardData, ReluGradient(), "+drelu"},
        FusedCase{"drelu_nhwc_fp16", Operation::kBackwardData, ReluGradient(), "+drelu",
                  DataType::kHalf, Layout::kNhwc},
        FusedCase{"drelu_3d", Operation::kBackwardData, ReluGradient(), "+drelu", DataType::kFloat,
                  Layout::kNhwc, 3},
        FusedCase{"drelu_scale", Operation::kBackwardData,
                  Steps({{CUDNN_POINTWISE_RELU_BWD, Reads::kWhole, {}},
                         {CUDNN_POINTWISE_MUL, Reads::kChannel, {}}}),
                  "+drelu+scale"},
        FusedCase{"scalar_and_row", Operation::kForward,
                  Steps({{CUDNN_POINTWISE_MUL, Reads::kScalar, {}},
                         {CUDNN_POINTWISE_ADD, Reads::kRow, {}}}),
                  "+mul(this,shared[1x1x1x1,1x1x1x1])+add(this,shared[1x1x1x12,12x12x12x1])"},
        FusedCase{"subtracted_from_two_tensors", Operation::kForward,
                  Steps({{CUDNN_POINTWISE_SUB, Reads::kWhole, {}, 16, true},
                         {CUDNN_POINTWISE_RELU_FWD, Reads::kNothing, {}},
                         {CUDNN_POINTWISE_ADD, Reads::kWhole, {}}}),
                  "+sub(whole,this)+relu+residual"}),
    [](const auto& given) { return given.param.name; });

// Measurements and promises are stored under an engine's name, so different graphs must have
// different names.
TEST(GraphFusedNames, DifferWhereGraphsDo) {
  Program program{Options()};
  constexpr auto kMul = CUDNN_POINTWISE_MUL, kAdd = CUDNN_POINTWISE_ADD;
  const FusedStep relu = {CUDNN_POINTWISE_RELU_FWD, Reads::kNothing, {}};
  const std::vector<std::vector<FusedStep>> graphs = {
      {},
      {relu},
      {{kMul, Reads::kChannel, {}}},
      {{kMul, Reads::kChannel, DataType::kHalf}},
      {{kAdd, Reads::kChannel, {}}},
      {{kAdd, Reads::kWhole, {}}},
      {{kAdd, Reads::kWhole, DataType::kHalf}},
      {{kMul, Reads::kWhole, {}}},
      {{kMul, Reads::kScalar, {}}},
      {{kMul, Reads::kRow, {}}},
      {{kMul, Reads::kChannel, {}}, {kAdd, Reads::kChannel, {}}},
      {{kAdd, Reads::kChannel, {}}, {kMul, Reads::kChannel, {}}},
      {{kAdd, Reads::kChannel, {}}, {kAdd, Reads::kChannel, {}}},
      {{kMul, Reads::kChannel, {}}, relu},
      {relu, {kMul, Reads::kChannel, {}}},
      {{CUDNN_POINTWISE_SUB, Reads::kWhole, {}}},
      {{CUDNN_POINTWISE_SUB, Reads::kWhole, {}, 16, true}}};
  std::set<std::string> names;
  for (const auto& steps : graphs) {
    const test::Graph graph(Problem(Operation::kForward), Steps(steps), program.real,
                            {program.handle});
    const auto plan = graph.Plan(kEngine);
    ASSERT_TRUE(plan);
    const auto read = cudnn::ReadTemplate(program.real, plan->get());
    ASSERT_TRUE(read.ok()) << read.message();
    EXPECT_TRUE(names.insert(read->convolution.engine.Text()).second) << read->convolution.engine;
  }
  EXPECT_EQ(names.size(), graphs.size());
}

// Measurements of one graph must not divide another graph.
TEST(GraphFusedNames, KeepMeasurementsApart) {
  const ConvolutionProblem problem = Problem(Operation::kForward);
  Program program(test::Planned());
  const cudnn::PlanDevice device{program.handle};
  const GraphOptions biased = Steps({{CUDNN_POINTWISE_ADD, Reads::kChannel, {}}});
  program.Measured({problem, biased, program.real, device}, kEngine, 100);
  program.Measured({WithBatch(problem, kPart), biased, program.real, device}, kEngine, 1);
  const test::Graph scale(problem, Scaled(), program.hooked, device);
  const test::Graph bias(problem, biased, program.hooked, device);
  const auto scaled = scale.Plan(kEngine), added = bias.Plan(kEngine);
  ASSERT_TRUE(scaled && added);
  (void)program.Run(program.hooked, problem, scaled->get(), Scaled());
  (void)program.Run(program.hooked, problem, added->get(), biased);
  int divided = 0;
  const auto report = program.Report();
  for (const auto& kernel : report["kernels"]) {
    for (const auto& run : kernel["plan"]) {
      const auto engine = run["engine"].get<std::string>();
      const bool is_biased = engine.find("+bias") != std::string::npos;
      EXPECT_EQ(run["micro_batch"], is_biased ? kPart : problem.n) << kernel.dump(1);
      divided += is_biased;
    }
  }
  EXPECT_EQ(divided, 1) << report.dump(1);
}

// After an odd number of images the next piece's output would be 8 bytes off the declared
// alignment.
TEST(GraphFusedAlignment, NoPieceBeginsWhereATensorIsNotAligned) {
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    ConvolutionProblem problem = Problem(operation, DataType::kHalf);
    problem.layout = Layout::kNhwc;
    problem.x = {1, 5, 5};
    (operation == Operation::kForward ? problem.k : problem.c) = 12;
    SetPackedStrides(problem);
    const GraphOptions fused = operation == Operation::kForward ? ScaledBiasRelu() : ReluGradient();
    Options options = test::Planned();
    options.policy = BatchSizePolicy::kAll;
    Program program(options);
    const cudnn::PlanDevice device{program.handle};
    const test::Graph plain(problem, fused, program.real, device);
    program.Measured(plain, kEngine, 100);
    for (const int images : {1, 2, 3}) {
      program.Measured({WithBatch(problem, images), fused, program.real, device}, kEngine,
                       images == 2 ? 1 : 0.01);
    }
    const auto whole = plain.Plan(kEngine);
    ASSERT_TRUE(whole);
    EXPECT_EQ(LegalStep(cudnn::ReadTemplate(program.real, whole->get())->convolution.problem), 2);
    const Values expected = program.Run(program.real, problem, whole->get(), fused);
    const test::Graph hooked(problem, fused, program.hooked, device);
    const auto plan = hooked.Plan(kEngine);
    ASSERT_TRUE(plan);
    EXPECT_EQ(program.Run(program.hooked, problem, plan->get(), fused), expected);
    const auto report = program.Report();
    const auto& runs = report["kernels"][0]["plan"];
    ASSERT_EQ(runs.size(), 1u) << report.dump(1);
    EXPECT_EQ(runs[0]["micro_batch"], 2) << report.dump(1);
  }
}

// Each graph is valid, exceeds the limit and is not divided.
TEST(GraphFusedWhole, SaysItsShapeAndTheLimitThatItBreaks) {
  struct Whole {
    FusedStep step;
    DataType type;
    const char* shape;
    const char* why;
  };
  const Whole kWholes[] = {
      {{CUDNN_POINTWISE_MUL, Reads::kPerImage, {}},
       DataType::kFloat,
       "convolution_forward 8x4x5x5 by 4x4x3x3 float + mul",
       "an operand varies from image to image and is laid out unlike the output"},
      {{CUDNN_POINTWISE_ADD, Reads::kOtherLayout, {}},
       DataType::kFloat,
       "convolution_forward 8x4x5x5 by 4x4x3x3 float + add",
       "an operand varies from image to image and is laid out unlike the output"},
      {{CUDNN_POINTWISE_EXP, Reads::kNothing, {}},
       DataType::kFloat,
       "convolution_forward 8x4x5x5 by 4x4x3x3 float + exp",
       "pointwise operation CUDNN_POINTWISE_EXP"},
      // An image has 100 elements: the output's 400 bytes are a multiple of 16, the fp16 operand's
      // 200 are not.
      {{CUDNN_POINTWISE_ADD, Reads::kWhole, DataType::kHalf},
       DataType::kFloat,
       "convolution_forward 8x4x5x5 by 4x4x3x3 float + add",
       "an operand's images are less aligned than the output's"}};
  for (const Whole& whole : kWholes) {
    ConvolutionProblem problem = Problem(Operation::kForward, whole.type);
    problem.k = 4;
    problem.x = {1, 5, 5};
    SetPackedStrides(problem);
    const GraphOptions fused = Steps({whole.step});
    for (const bool limited : {false, true}) {
      Options options;
      options.tuning.on = false;
      if (limited) options.workspace_limit = 1024;
      Program program(options);
      const test::Graph plain(problem, fused, program.real, {program.handle});
      const test::Graph hooked(problem, fused, program.hooked, {program.handle});
      const auto undivided = plain.Plan(kEngine), plan = hooked.Plan(kEngine);
      ASSERT_TRUE(undivided && plan);
      const size_t need = *cudnn::PlanWorkspace(program.real, undivided->get());
      ASSERT_GT(need, 1024u);
      EXPECT_EQ(*cudnn::PlanWorkspace(program.hooked, plan->get()), need);
      EXPECT_EQ(program.Run(program.hooked, problem, plan->get(), fused),
                program.Run(program.real, problem, undivided->get(), fused));
      const std::string report = program.Report()["fallbacks"].dump();
      EXPECT_THAT(report, HasSubstr(whole.why));
      if (!limited) continue;
      EXPECT_THAT(report, HasSubstr(whole.shape));
      EXPECT_THAT(report, HasSubstr("needs " + FormatByteSize(need) +
                                    ", over the limit of 1 KiB, and stays whole: "));
    }
  }
}

// A plan that the store's measurements divide into pieces of two images.
class DividedPlan : public OnePlan {
 public:
  DividedPlan(const ConvolutionProblem& problem, const GraphOptions& fused)
      : OnePlan(problem, fused, test::Planned()) {
    program_.Measured(whole_, kEngine, 100);
    PartsMeasured(kEngine, 1);
    MakePlans();
  }
};

TEST(GraphFusedCapture, ReplaysItsPieces) {
  const std::pair<Operation, GraphOptions> graphs[] = {{Operation::kForward, ScaledBiasRelu()},
                                                       {Operation::kBackwardData, ReluGradient()}};
  for (const auto& [operation, fused] : graphs) {
    DividedPlan subject(Problem(operation), fused);
    subject.Run(*subject.Memory());  // pieces are captured once they have run
    CaptureSetting(subject).ExpectReplaysBesideCalls();
  }
}

}  // namespace
}  // namespace ucudnn::interposer
