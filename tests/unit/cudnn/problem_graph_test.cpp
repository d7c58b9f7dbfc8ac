// Tests the operation graphs that ProblemGraph makes for kernels of the legacy API. Uses the real
// library, without a GPU.
#include "cudnn/problem_graph.h"

#include <gmock/gmock.h>

#include "cudnn/descriptors.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/engines.h"
#include "tests/support/problem.h"

namespace ucudnn::cudnn {
namespace {

using test::DescribedDevice;
using test::kOperations;
using test::RealCudnn;
using ::testing::Contains;
using ::testing::Not;

ConvolutionProblem Problem(Operation operation, DataType type = DataType::kFloat) {
  return test::ProblemWith({.operation = operation,
                            .n = 32,
                            .c = 64,
                            .k = 128,
                            .x = {1, 28, 30},
                            .pad = {0, 1, 0},
                            .stride = {1, 2, 1},
                            .type = type,
                            .alignment = kLegacyAlignment});
}

ProblemGraph GraphOf(const ConvolutionProblem& problem) {
  auto graph = ProblemGraph::Create(RealCudnn(), DescribedDevice(), problem);
  EXPECT_TRUE(graph.ok()) << graph.message();
  return std::move(*graph);
}

TEST(ProblemGraph, EnginesSayTheProblemAndAreFoundAgainByName) {
  std::vector<ConvolutionProblem> problems;
  for (const Operation operation : kOperations) {
    problems.push_back(Problem(operation));
    problems.push_back(Problem(operation, DataType::kHalf));
    problems.back().layout = Layout::kNhwc;
    SetPackedStrides(problems.back());
    problems.push_back(Problem(operation));
    problems.back().spatial_rank = 3;
    problems.back().x[0] = 6;
    problems.back().w[0] = 2;
    SetPackedStrides(problems.back());
    problems.push_back(Problem(operation));
    problems.back().x_strides[0] += 64;  // a gap between images
  }
  int found = 0;
  for (ConvolutionProblem& problem : problems) {
    problem.math = MathType::kTensorOpAllowConversion;
    const ProblemGraph graph = GraphOf(problem);
    const std::vector<GraphTemplate> engines = graph.Heuristics(3);
    EXPECT_LE(engines.size(), 3u);
    for (const GraphTemplate& engine : engines) {
      EXPECT_EQ(engine.convolution.problem, problem);
      EXPECT_EQ(engine.convolution.alpha, 1);
      EXPECT_EQ(engine.convolution.beta, 0);
      const auto again = graph.Named(engine.convolution.engine);
      ASSERT_TRUE(again.ok()) << again.message();
      EXPECT_EQ(again->json, engine.json);
      EXPECT_EQ(again->deterministic, engine.deterministic);
      ++found;
    }
  }
  EXPECT_GE(found, 12) << "of " << problems.size() << " problems";
}

TEST(ProblemGraph, NoEngineIsCoarserThanTheMathType) {
  for (const Operation operation : kOperations) {
    ConvolutionProblem problem = Problem(operation);
    for (const MathType math : {MathType::kDefault, MathType::kFma}) {
      problem.math = math;
      for (const GraphTemplate& engine : GraphOf(problem).Heuristics(16)) {
        EXPECT_THAT(engine.notes.numerical, Not(Contains(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)))
            << engine.convolution.engine;
        EXPECT_THAT(engine.notes.behavior, Not(Contains(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)));
      }
    }
  }
}

// The graph API has no math type, so BuildPart must make plans of parts under every math type.
TEST(ProblemGraph, EnginesRunPartsUnderEveryMathType) {
  for (const MathType math : {MathType::kDefault, MathType::kTensorOp,
                              MathType::kTensorOpAllowConversion, MathType::kFma}) {
    int built = 0;
    for (const Operation operation : kOperations) {
      ConvolutionProblem problem = Problem(operation);
      problem.math = math;
      ConvolutionProblem part = problem;
      part.n = problem.n / 2;
      for (const GraphTemplate& engine : GraphOf(problem).Heuristics(4)) {
        const auto plan = BuildPart(RealCudnn(), DescribedDevice(), engine, {part});
        EXPECT_TRUE(plan.ok()) << engine.convolution.engine << ": " << plan.message();
        ++built;
      }
    }
    EXPECT_GT(built, 0) << static_cast<int>(math);
  }
}

TEST(ProblemGraph, NotesAreHeldAgainstTheMathType) {
  ConvolutionProblem problem = Problem(Operation::kForward);
  const auto may = [&](MathType math, std::vector<int> numerical) {
    problem.math = math;
    return MayServe({std::move(numerical), {}}, problem);
  };
  constexpr int kCore = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
  constexpr int kDown = CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
  EXPECT_TRUE(may(MathType::kFma, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}));
  EXPECT_FALSE(may(MathType::kDefault, {kCore}));
  EXPECT_TRUE(may(MathType::kTensorOp, {kCore}));
  EXPECT_FALSE(may(MathType::kTensorOp, {kCore, kDown}));
  EXPECT_TRUE(may(MathType::kTensorOpAllowConversion, {kCore, kDown}));
  EXPECT_FALSE(
      may(MathType::kTensorOpAllowConversion, {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}));
  EXPECT_FALSE(may(MathType::kTensorOp, {CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13}));
  EXPECT_FALSE(may(MathType::kTensorOp, {CUDNN_NUMERICAL_NOTE_TYPE_COUNT}));
  problem.type = DataType::kHalf;
  EXPECT_TRUE(may(MathType::kDefault, {kCore}));
  EXPECT_FALSE(may(MathType::kFma, {kCore}));
  EXPECT_FALSE(MayServe({{}, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}}, problem));
  EXPECT_FALSE(MayServe({{}, {CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER}}, problem));
}

TEST(ProblemGraph, OtherNamesAreRefused) {
  const ProblemGraph graph = GraphOf(Problem(Operation::kForward));
  for (const char* name :
       {"legacy:1", "graph:", "graph:x", "graph:-1", "graph:100000", "graph:0[", "graph:0[k2=]",
        "graph:0[k2=1", "graph:0[k2=1]]", "graph:0[k2=1,k2=1]", "graph:0+relu", "graph:00"}) {
    EXPECT_FALSE(graph.Named(name).ok()) << name;
  }
}

// ucudnn makes pieces of a filter's gradient with default PieceScales, for measuring and for
// execution, whatever beta the program's calls have.
TEST(ProblemGraph, GradientsOfTheFilterAreReadyToAdd) {
  ConvolutionProblem problem = Problem(Operation::kBackwardFilter);
  const std::vector<GraphTemplate> engines = GraphOf(problem).Heuristics(1);
  ASSERT_EQ(engines.size(), 1u);
  GraphEngines graph(RealCudnn(), DescribedDevice(), {&engines[0]});
  const std::vector<EngineChoice> choices = test::Choices(graph, problem);
  ASSERT_EQ(choices.size(), 1u);
  const auto piece =
      graph.MakePiece(problem, engines[0].convolution.engine, {}, choices[0].workspace_bytes);
  EXPECT_TRUE(piece.ok()) << piece.message();
}

}  // namespace
}  // namespace ucudnn::cudnn
