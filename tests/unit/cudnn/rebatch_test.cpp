// BuildPart moves a plan to another batch through its JSON. Tests that the result is the plan that
// the library itself builds for that batch, with the same engine, knobs and workspace. Uses the
// real library, without a GPU.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "cudnn/graph_engines.h"
#include "planner/graph/layers.h"
#include "planner/graph/networks.h"
#include "tests/support/cases.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/problem.h"

namespace ucudnn::cudnn {
namespace {

using test::DescribedDevice;
using test::Graph;
using test::GraphOptions;
using test::RealCudnn;

constexpr int kBatch = 64;
constexpr int kBatches[] = {1, 6, 16, 47};

struct Kind {
  DataType type;
  Layout layout;
};
constexpr Kind kKinds[] = {{DataType::kFloat, Layout::kNchw},
                           {DataType::kFloat, Layout::kNhwc},
                           {DataType::kHalf, Layout::kNchw},
                           {DataType::kHalf, Layout::kNhwc},
                           {DataType::kBfloat16, Layout::kNhwc}};

// Returns the distinct convolutions of two networks, and grouped, depthwise and 3-D convolutions.
std::vector<ConvolutionProblem> Layers() {
  std::vector<ConvolutionProblem> layers;
  std::set<std::string> seen;
  for (const char* network : {"alexnet", "resnet18"}) {
    const auto graph = planner::BuildNetwork(network);
    EXPECT_TRUE(graph.ok());
    const auto convolutions = planner::ConvolutionLayers(*graph, kBatch, {Operation::kForward});
    EXPECT_TRUE(convolutions.ok());
    for (const Layer& layer : *convolutions) {
      if (seen.insert(Describe(layer.problem)).second) layers.push_back(layer.problem);
    }
  }
  layers.push_back(test::ProblemWith({.c = 64, .k = 64, .groups = 4, .x = {1, 28, 28}}));
  layers.push_back(test::ProblemWith({.c = 32, .k = 32, .groups = 32, .x = {1, 28, 28}}));
  layers.push_back(test::ProblemWith(
      {.spatial_rank = 3, .c = 16, .k = 32, .x = {16, 24, 24}, .w = {3, 3, 3}, .pad = {1, 1, 1}}));
  // TensorFlow pads strided convolutions only at the end of each axis.
  ConvolutionProblem uneven = test::ProblemWith(
      {.c = 64, .k = 64, .x = {1, 56, 56}, .pad = {0, 0, 0}, .stride = {1, 2, 2}});
  uneven.extra_pad = {0, 1, 1};
  SetPackedStrides(uneven);
  layers.push_back(uneven);
  return layers;
}

class Rebatching : public ::testing::Test {
 protected:
  // Calls `visit` with the problem, its graph at kBatch and its graphs at kBatches. Does nothing if
  // the library refuses the graph at kBatch.
  template <typename Visit>
  static void WithGraphs(ConvolutionProblem problem, const Kind& kind, Operation operation,
                         const GraphOptions& options, const Visit& visit) {
    problem.operation = operation;
    problem.type = kind.type;
    problem.layout = kind.layout;
    problem.n = kBatch;
    SetPackedStrides(problem);
    const Graph graph(problem, options);
    if (!graph.ok()) return;
    std::vector<Graph> others;
    ConvolutionProblem other = problem;
    for (const int n : kBatches) {
      other.n = n;
      others.emplace_back(other, options);
    }
    visit(problem, graph, others);
  }

  // For one engine, compares BuildPart's plans at kBatches with the plans that the library itself
  // makes from the graphs `others`. Returns false if the library has no plan of that engine at
  // kBatch.
  bool Compare(const Graph& graph, const std::vector<Graph>& others, int engine,
               const Graph::Knobs& knobs, const GraphOptions& options,
               const ConvolutionProblem& problem) {
    const auto plan = graph.Plan(engine, knobs);
    if (!plan) return false;
    const auto read = ReadTemplate(RealCudnn(), plan->get());
    if (!read.ok()) {
      ADD_FAILURE() << Describe(problem) << ": " << read.message();
      return false;
    }
    for (size_t i = 0; i < others.size(); ++i) {
      const auto native = others[i].Plan(engine, knobs);
      const auto rebatched =
          BuildPart(RealCudnn(), DescribedDevice(), *read,
                    test::AtBatch(read->convolution, kBatches[i], options.alpha, options.beta));
      const std::string who = read->convolution.engine.Text() + " at " +
                              std::to_string(kBatches[i]) + " of " + Describe(problem);
      if (native.has_value() != rebatched.ok()) {
        ++unlike_;
        ADD_FAILURE() << who << ": natively " << native.has_value() << ", re-batched "
                      << rebatched.message();
        continue;
      }
      if (!native) continue;
      const size_t expected = *PlanWorkspace(RealCudnn(), native->get());
      const size_t workspace = *PlanWorkspace(RealCudnn(), rebatched->get());
      EXPECT_EQ(workspace, expected) << who;
      // Plans with equal JSON have the same engine, knobs and extents.
      EXPECT_EQ(*PlanJson(RealCudnn(), rebatched->get()), *PlanJson(RealCudnn(), native->get()))
          << who;
      ++plans_;
    }
    return true;
  }

  int cases_ = 0;   // compared engines, counted for each layer, type and operation
  int plans_ = 0;   // plans of these engines at another batch
  int unlike_ = 0;  // plans that only BuildPart or only the library builds
};

TEST_F(Rebatching, WorkspaceIsTheNativePlans) {
  // The test compares every `every`-th pair of a layer and a kind.
  const int every = test::Cases(1, 3);
  int pairs = 0;
  const auto compare = [&](const auto& problem, const Graph& graph, const auto& others) {
    const int engines = graph.EngineCount();
    for (int engine = 0; engine < engines; ++engine) {
      cases_ += Compare(graph, others, engine, {}, {}, problem);
    }
  };
  for (const ConvolutionProblem& layer : Layers()) {
    for (const Kind& kind : kKinds) {
      if (++pairs % every != 0) continue;
      for (const Operation operation : test::kOperations) {
        WithGraphs(layer, kind, operation, {}, compare);
      }
    }
  }
  std::printf("%d cases (engine, layer, type, operation) at %zu batch sizes: %d plans\n", cases_,
              std::size(kBatches), plans_);
  EXPECT_GE(cases_, 3000 / every);
  EXPECT_GE(plans_, cases_ * 3);
}

TEST_F(Rebatching, KnobsThatHeuristicsChose) {
  int chosen = 0, fused = 0;
  for (const ConvolutionProblem& layer : Layers()) {
    for (const Kind& kind : kKinds) {
      for (const auto& [operation, fuses] :
           {std::pair{Operation::kForward, false}, std::pair{Operation::kForward, true},
            std::pair{Operation::kBackwardData, false},
            std::pair{Operation::kBackwardFilter, false}}) {
        GraphOptions options;
        options.residual = options.bias = options.relu = fuses;
        // Pieces of a filter's gradient add to w, so their plans have beta 1.
        options.beta = operation == Operation::kBackwardFilter ? 1 : 0;
        const auto compare = [&, fuses = fuses](const auto& problem, const Graph& graph,
                                                const auto& others) {
          for (const BackendDescriptor& plan : graph.HeuristicPlans(CUDNN_HEUR_MODE_A, 3)) {
            const auto read = ReadTemplate(RealCudnn(), plan.get());
            ASSERT_TRUE(read.ok()) << read.message();
            ASSERT_NE(read->convolution.engine.graph(), nullptr) << read->convolution.engine;
            const auto& [engine, knobs, fusion] = *read->convolution.engine.graph();
            EXPECT_TRUE(Compare(graph, others, static_cast<int>(engine), knobs, options, problem))
                << read->convolution.engine << " of " << Describe(problem);
            chosen += !knobs.empty();
            EXPECT_EQ(!fusion.empty(), fuses) << read->convolution.engine;
            fused += fuses;
          }
        };
        WithGraphs(layer, kind, operation, options, compare);
      }
    }
  }
  std::printf("%d plans with chosen knobs, %d of them fused: %d plans at other batches\n", chosen,
              fused, plans_);
  EXPECT_GE(chosen, 500);
  EXPECT_GE(fused, 100);
}

}  // namespace
}  // namespace ucudnn::cudnn
