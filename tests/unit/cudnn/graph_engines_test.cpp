// Tests GraphEngines, which offers plans of the graph API through the interface Engines. Uses the
// real library, without a GPU.
#include "cudnn/graph_engines.h"

#include <gmock/gmock.h>

#include "tests/support/deviceless_cudnn.h"
#include "tests/support/engines.h"
#include "tests/support/problem.h"

namespace ucudnn::cudnn {
namespace {

using test::DescribedDevice;
using test::Graph;
using test::RealCudnn;
using ::testing::HasSubstr;

ConvolutionProblem Problem(Operation operation) {
  return test::ProblemWith({.operation = operation, .n = 256, .c = 64, .k = 128, .x = {1, 28, 28}});
}

GraphTemplate Template(const Graph& graph, int engine) {
  const auto plan = graph.Plan(engine);
  EXPECT_TRUE(plan);
  auto read = ReadTemplate(RealCudnn(), plan->get());
  EXPECT_TRUE(read.ok()) << read.message();
  return std::move(*read);
}

// Returns the first engine of the graph that needs more than 1 MiB of workspace.
GraphTemplate WithWorkspace(const Graph& graph) {
  for (int engine = 0; engine < graph.EngineCount(); ++engine) {
    const auto plan = graph.Plan(engine);
    if (plan && *PlanWorkspace(RealCudnn(), plan->get()) > (1 << 20)) {
      return std::move(*ReadTemplate(RealCudnn(), plan->get()));
    }
  }
  ADD_FAILURE() << "no engine needs workspace";
  return {};
}

TEST(GraphEngines, ServeAnyBatchOfTheirGraph) {
  const Graph graph(Problem(Operation::kForward));
  const GraphTemplate fast = Template(graph, 38), slow = Template(graph, 28);
  GraphEngines engines(RealCudnn(), DescribedDevice(), {&fast, &slow});
  ConvolutionProblem part = fast.convolution.problem;
  part.n = 32;
  const std::vector<EngineChoice> choices = test::Choices(engines, part);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].engine, "graph:38");
  EXPECT_TRUE(choices[0].deterministic);
  EXPECT_EQ(choices[1].workspace_bytes, 0u);
  const Graph part_graph(part);
  EXPECT_EQ(choices[0].workspace_bytes, *PlanWorkspace(RealCudnn(), part_graph.Plan(38)->get()));
}

TEST(GraphEngines, ServeNothingElse) {
  const Graph graph(Problem(Operation::kForward));
  const GraphTemplate plan = Template(graph, 38);
  GraphEngines engines(RealCudnn(), DescribedDevice(), {&plan});
  ConvolutionProblem other = plan.convolution.problem;
  other.pad = {0, 0, 0};
  constexpr size_t kAny = size_t{1} << 40;
  EXPECT_FALSE(engines.List(other).ok());
  EXPECT_FALSE(engines.MakePiece(other, "graph:38", {}, kAny).ok());
  EXPECT_THAT(engines.MakePiece(plan.convolution.problem, "graph:28", {}, kAny).message(),
              HasSubstr("no plan at hand"));
  EXPECT_FALSE(engines.MakePiece(plan.convolution.problem, "legacy:1", {}, kAny).ok());
}

TEST(GraphEngines, APieceNeverNeedsMoreThanItWasMeasuredWith) {
  for (const Operation operation : test::kOperations) {
    const Graph graph(Problem(operation));
    const GraphTemplate plan = WithWorkspace(graph);
    GraphEngines engines(RealCudnn(), DescribedDevice(), {&plan});
    ConvolutionProblem part = plan.convolution.problem;
    part.n = 64;
    const std::vector<EngineChoice> choices = test::Choices(engines, part);
    ASSERT_EQ(choices.size(), 1u) << plan.convolution.engine;
    const size_t need = choices[0].workspace_bytes;
    ASSERT_GT(need, 0u);
    const auto piece = [&](size_t bytes) {
      return engines.MakePiece(part, plan.convolution.engine, {.may_add = true}, bytes).ok();
    };
    EXPECT_TRUE(piece(need)) << plan.convolution.engine;
    EXPECT_FALSE(piece(need - 1)) << plan.convolution.engine;
  }
}

// x has more than 2^34 elements. The part of 50000 images has more than 2^31 elements, the part of
// 1000 images fewer.
TEST(GraphEngines, TensorsBeyondTwoToThe31AreBuiltAtAnyBatch) {
  ConvolutionProblem problem = Problem(Operation::kForward);
  problem.n = 100000;
  problem.x = {1, 56, 56};
  SetPackedStrides(problem);
  ASSERT_GT(int64_t{problem.n} * problem.x_strides[0], int64_t{1} << 34);
  const Graph graph(problem);
  int built = 0;
  for (int engine = 0; engine < graph.EngineCount(); ++engine) {
    const auto whole = graph.Plan(engine);
    if (!whole) continue;
    const auto original = ReadTemplate(RealCudnn(), whole->get());
    ASSERT_TRUE(original.ok()) << original.message();
    for (const int images : {50000, 1000}) {
      ConvolutionProblem part = problem;
      part.n = images;
      const auto native = Graph(part).Plan(engine);
      const auto rebatched = BuildPart(RealCudnn(), DescribedDevice(), *original,
                                       test::AtBatch(original->convolution, images));
      ASSERT_EQ(rebatched.ok(), native.has_value())
          << original->convolution.engine << " at " << images;
      if (!native) continue;
      EXPECT_EQ(*PlanWorkspace(RealCudnn(), rebatched->get()),
                *PlanWorkspace(RealCudnn(), native->get()));
      const auto read = ReadTemplate(RealCudnn(), rebatched->get());
      ASSERT_TRUE(read.ok()) << read.message();
      EXPECT_EQ(read->convolution.problem.n, images);
      EXPECT_EQ(read->convolution.problem.x_strides, original->convolution.problem.x_strides);
      ++built;
    }
  }
  EXPECT_GT(built, 0);
}

TEST(GraphEngines, APlanNeedsADevice) {
  const Graph graph(Problem(Operation::kForward));
  const GraphTemplate plan = Template(graph, 38);
  EXPECT_FALSE(BuildPlan(RealCudnn(), {}, plan.json).ok());
}

}  // namespace
}  // namespace ucudnn::cudnn
