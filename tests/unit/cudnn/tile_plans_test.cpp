// BuildPart makes the plan of a tile from the JSON of the whole convolution's plan. Tests that the
// result is the plan that the library itself builds for the tile, with the same engine, knobs,
// workspace and text. Uses the real library, without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convolution/tiles.h"
#include "cudnn/graph_engines.h"
#include "planner/graph/layers.h"
#include "planner/graph/networks.h"
#include "planner/striping/exact_size.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/problem.h"
#include "tuning/fitting_grids.h"

namespace ucudnn::cudnn {
namespace {

using test::DescribedDevice;
using test::FusedStep;
using test::Graph;
using test::GraphOptions;
using test::ProblemWith;
using test::RealCudnn;

constexpr int kAlignment = 16;

struct Case {
  ConvolutionProblem whole;  // ForEachCut sets its type, layout and operation
  TileGrid grid;
};

// The cases have tiles along h with strides and dilations, tiles along groups and k, and tiles of
// volumes along d and h.
std::vector<Case> Cases() {
  return {
      {ProblemWith({.n = 1, .c = 64, .k = 64, .x = {1, 56, 56}}), {.spatial = {1, 4, 1}}},
      {ProblemWith({.n = 2,
                    .c = 32,
                    .k = 64,
                    .x = {1, 57, 64},
                    .w = {1, 5, 5},
                    .pad = {0, 2, 2},
                    .stride = {1, 2, 2}}),
       {.n = 2, .spatial = {1, 3, 1}}},
      {ProblemWith(
           {.n = 1, .c = 64, .k = 32, .x = {1, 48, 48}, .pad = {0, 2, 2}, .dilation = {1, 2, 2}}),
       {.spatial = {1, 3, 2}}},
      {ProblemWith({.n = 1, .c = 64, .k = 64, .groups = 4, .x = {1, 28, 28}}),
       {.groups = 4, .spatial = {1, 2, 1}}},
      {ProblemWith({.n = 4, .c = 64, .k = 128, .x = {1, 28, 28}}), {.k = 4}},
      {ProblemWith({.spatial_rank = 3,
                    .n = 1,
                    .c = 32,
                    .k = 32,
                    .x = {16, 32, 32},
                    .w = {3, 3, 3},
                    .pad = {1, 1, 1}}),
       {.spatial = {4, 2, 1}}},
  };
}

struct Kind {
  DataType type;
  Layout layout;
};
constexpr Kind kKinds[] = {{DataType::kFloat, Layout::kNchw},
                           {DataType::kFloat, Layout::kNhwc},
                           {DataType::kBfloat16, Layout::kNchw},
                           {DataType::kBfloat16, Layout::kNhwc}};

class TilePlans : public ::testing::Test {
 protected:
  // Calls `visit` with each case and its tiles, in each type, layout and operation in which the
  // case can be cut.
  template <typename Visit>
  void ForEachCut(const Visit& visit) {
    for (const Case& one : Cases()) {
      for (const Kind& kind : kKinds) {
        for (const Operation operation : test::kOperations) {
          ConvolutionProblem whole = one.whole;
          whole.operation = operation;
          whole.type = kind.type;
          whole.layout = kind.layout;
          whole.alignment = kAlignment;
          SetPackedStrides(whole);
          const auto cut = CutIntoTiles(whole, one.grid);
          if (cut.ok()) visit(whole, *cut);
        }
      }
    }
  }

  // For each kind of tile, compares BuildPart's plan with the plan that the library itself makes.
  // Returns false if the library has no plan of this engine for the whole convolution.
  bool Compare(const Graph& whole, const Tiles& cut, const std::vector<Graph>& tiles, int engine,
               const Graph::Knobs& knobs, const GraphOptions& options) {
    const auto plan = whole.Plan(engine, knobs);
    if (!plan) return false;
    const auto read = ReadTemplate(RealCudnn(), plan->get());
    if (!read.ok()) {
      ADD_FAILURE() << read.message();
      return false;
    }
    for (size_t kind = 0; kind < cut.kinds.size(); ++kind) {
      const ConvolutionProblem& problem = cut.kinds[kind].problem;
      const auto native = tiles[kind].Plan(engine, knobs);
      const auto edited =
          BuildPart(RealCudnn(), DescribedDevice(), *read, {problem, options.alpha, options.beta});
      const std::string who = read->convolution.engine.Text() + " of " + Describe(problem);
      EXPECT_EQ(native.has_value(), edited.ok()) << who << ": " << edited.message();
      ++(native ? plans_ : refused_);
      if (!edited.ok()) NoteIfPackedServes(*read, problem);
      if (!native || !edited.ok()) continue;
      EXPECT_EQ(*PlanJson(RealCudnn(), edited->get()), *PlanJson(RealCudnn(), native->get()))
          << who;
      EXPECT_EQ(*PlanWorkspace(RealCudnn(), edited->get()),
                *PlanWorkspace(RealCudnn(), native->get()))
          << who;
    }
    return true;
  }

  // If the engine refuses the tile as a view of the whole tensors but accepts the packed tile, adds
  // the engine to refuse_views_.
  void NoteIfPackedServes(const GraphTemplate& whole, ConvolutionProblem tile) {
    SetPackedStrides(tile);
    tile.alignment = kAlignment;
    const auto packed = BuildPart(RealCudnn(), DescribedDevice(), whole, {tile});
    if (!packed.ok()) return;
    refuse_views_.insert(std::string(OperationName(tile.operation)) + " " +
                         whole.convolution.engine.Text());
    EXPECT_EQ(*PlanWorkspace(RealCudnn(), packed->get()), 0u);
  }

  // Returns, for each kind of tile, the graph that a program would make for it.
  static std::vector<Graph> GraphsOf(const ConvolutionProblem& whole, const Tiles& cut,
                                     const GraphOptions& options) {
    std::vector<Graph> graphs;
    for (const TileKind& kind : cut.kinds) {
      GraphOptions declared = options;
      const ConvolutionProblem& problem = kind.problem;
      if (problem.x != whole.x || problem.c != whole.c) declared.x_alignment = problem.alignment;
      if (OutputExtents(problem) != OutputExtents(whole) || problem.k != whole.k) {
        declared.y_alignment = problem.alignment;
        for (FusedStep& step : declared.steps) {
          if (step.reads == FusedStep::Reads::kWhole) step.alignment = problem.alignment;
        }
      }
      if (problem.k != whole.k) declared.w_alignment = problem.alignment;
      graphs.emplace_back(problem, declared);
    }
    return graphs;
  }

  int plans_ = 0;
  int refused_ = 0;  // plans that neither BuildPart nor the library makes
  std::set<std::string> refuse_views_;
};

TEST_F(TilePlans, OfEveryEngineAreTheNativeOnes) {
  int engines = 0;
  ForEachCut([&](const ConvolutionProblem& whole, const Tiles& cut) {
    const Graph graph(whole);
    if (!graph.ok()) return;
    const std::vector<Graph> tiles = GraphsOf(whole, cut, {});
    for (int engine = 0; engine < graph.EngineCount(); ++engine) {
      engines += Compare(graph, cut, tiles, engine, {}, {});
    }
  });
  std::printf("%d engines of wholes: %d plans of tiles, %d refused in both ways\n", engines, plans_,
              refused_);
  EXPECT_GE(engines, 500);
  EXPECT_GE(plans_, 1500);
  // Tiles at the border have padding on one side alone, which some engines refuse.
  EXPECT_GT(refused_, 0);
  // Only one engine accepts packed tiles but refuses views. It needs no workspace, so no workspace
  // limit ever excludes it.
  EXPECT_EQ(refuse_views_, std::set<std::string>{"backward_data graph:2"});
}

TEST_F(TilePlans, KeepTheKnobsThatHeuristicsChose) {
  int chosen = 0;
  ForEachCut([&](const ConvolutionProblem& whole, const Tiles& cut) {
    for (const bool fuses : {false, true}) {
      // Fused operations are tested only in forward tiles that have all of k. In tiles cut along k
      // or groups, BuildPart and the library give different strides to an operand with one value
      // per channel.
      if (fuses && (whole.operation != Operation::kForward || cut.kinds[0].problem.k != whole.k)) {
        continue;
      }
      GraphOptions options;
      if (fuses) {
        options.steps = {{CUDNN_POINTWISE_ADD, FusedStep::Reads::kWhole, {}, kAlignment},
                         {CUDNN_POINTWISE_ADD, FusedStep::Reads::kChannel, {}},
                         {CUDNN_POINTWISE_RELU_FWD, FusedStep::Reads::kNothing, {}}};
      }
      options.beta = whole.operation == Operation::kBackwardFilter ? 1 : 0;
      const Graph graph(whole, options);
      if (!graph.ok()) continue;
      const std::vector<Graph> tiles = GraphsOf(whole, cut, options);
      for (const BackendDescriptor& plan : graph.HeuristicPlans(CUDNN_HEUR_MODE_A, 3)) {
        const auto read = ReadTemplate(RealCudnn(), plan.get());
        ASSERT_TRUE(read.ok()) << read.message();
        const auto& [engine, knobs, fusion] = *read->convolution.engine.graph();
        EXPECT_TRUE(Compare(graph, cut, tiles, static_cast<int>(engine), knobs, options));
        chosen += !knobs.empty();
      }
    }
  });
  std::printf("%d plans with chosen knobs: %d plans of tiles, %d refused in both ways\n", chosen,
              plans_, refused_);
  EXPECT_GE(chosen, 100);
  EXPECT_GE(plans_, 300);
}

// A network for one image, and the extent of its input. The extent 0 means the network's default.
struct Network {
  const char* name;
  int extent;
};
constexpr Network kNetworks[] = {
    {"vae-decoder", 128}, {"vae-decoder", 256}, {"unet-3d", 0}, {"video-vae", 0}};

// Each kernel of four networks is cut into eight tiles, or into fewer if eight are not possible.
TEST_F(TilePlans, OfNetworksWithOneImageAreTheNativeOnes) {
  constexpr int kPlans = 3;  // number of plans that the heuristics rank first
  int kernels = 0, compared = 0;
  for (const Network& network : kNetworks) {
    auto graph = planner::BuildNetwork(network.name);
    ASSERT_TRUE(graph.ok()) << graph.message();
    if (network.extent > 0) {
      ASSERT_TRUE(planner::SetInputExtents(*graph, {0, network.extent, network.extent}).ok());
    }
    for (const Kind& kind : kKinds) {
      const auto layers = planner::ConvolutionLayers(
          *graph, 1, {std::begin(test::kOperations), std::end(test::kOperations)}, kind.type,
          kind.layout);
      ASSERT_TRUE(layers.ok()) << layers.message();
      std::set<std::string> seen;
      for (const Layer& layer : *layers) {
        ConvolutionProblem whole = layer.problem;
        whole.alignment = kAlignment;
        if (!seen.insert(Describe(whole)).second) continue;
        ++kernels;
        const std::vector<TileGrid> grids = tuning::GridsOf(whole);
        if (grids.empty()) continue;
        const auto cut = CutIntoTiles(whole, grids[std::min<size_t>(2, grids.size() - 1)]);
        ASSERT_TRUE(cut.ok()) << cut.message();
        const Graph plain(whole);
        const std::vector<Graph> tiles = GraphsOf(whole, *cut, {});
        for (const BackendDescriptor& plan : plain.HeuristicPlans(CUDNN_HEUR_MODE_A, kPlans)) {
          const auto read = ReadTemplate(RealCudnn(), plan.get());
          ASSERT_TRUE(read.ok()) << read.message();
          const auto& [engine, knobs, fusion] = *read->convolution.engine.graph();
          compared += Compare(plain, *cut, tiles, static_cast<int>(engine), knobs, {});
        }
      }
    }
  }
  std::printf("%d kernels: %d plans of wholes, %d of tiles, %d refused in both ways\n", kernels,
              compared, plans_, refused_);
  EXPECT_GE(compared, 2000);
  EXPECT_GE(plans_, 5000);
}

// A tile is measured as its SlackTwin, whose tensors are smaller than the whole tensors. So a tile
// and its SlackTwin must need the same workspace.
TEST_F(TilePlans, NeedTheWorkspaceOfTheirSlackTwins) {
  int packed_differ = 0;
  ForEachCut([&](const ConvolutionProblem& whole, const Tiles& cut) {
    const Graph graph(whole);
    if (!graph.ok()) return;
    for (const BackendDescriptor& plan : graph.HeuristicPlans(CUDNN_HEUR_MODE_A, 4)) {
      const auto read = ReadTemplate(RealCudnn(), plan.get());
      ASSERT_TRUE(read.ok()) << read.message();
      for (const TileKind& kind : cut.kinds) {
        const auto workspace = [&](const ConvolutionProblem& problem) -> std::optional<size_t> {
          const auto built = BuildPart(RealCudnn(), DescribedDevice(), *read, {problem});
          if (!built.ok()) return std::nullopt;
          return *PlanWorkspace(RealCudnn(), built->get());
        };
        const std::optional<size_t> needed = workspace(kind.problem);
        EXPECT_EQ(workspace(SlackTwin(kind)), needed)
            << read->convolution.engine << " of " << Describe(kind.problem);
        ConvolutionProblem packed = kind.problem;
        SetPackedStrides(packed);
        packed_differ += workspace(packed) != needed;
        plans_ += needed.has_value();
      }
    }
  });
  std::printf("%d plans of tiles and of their twins; %d of packed tensors need another workspace\n",
              plans_, packed_differ);
  EXPECT_GE(plans_, 300);
  EXPECT_GT(packed_differ, 0);
}

// A row has 190 columns of 16 bits, 380 bytes. So all rows begin at multiples of 4 bytes, but only
// every fourth row begins at a multiple of 16 bytes.
TEST_F(TilePlans, DeclareTheAlignmentOfTheirPlaces) {
  for (const Operation operation : test::kOperations) {
    const ConvolutionProblem whole = ProblemWith({.operation = operation,
                                                  .n = 1,
                                                  .c = 64,
                                                  .k = 64,
                                                  .x = {1, 64, 190},
                                                  .type = DataType::kBfloat16,
                                                  .alignment = kAlignment});
    const auto cut = CutIntoTiles(whole, {.spatial = {1, 8, 1}});
    ASSERT_TRUE(cut.ok()) << cut.message();
    ASSERT_EQ(cut->kinds[0].problem.alignment, 4);
    const Graph graph(whole);
    const std::vector<Graph> tiles = GraphsOf(whole, *cut, {});
    for (int engine = 0; engine < graph.EngineCount(); ++engine) {
      Compare(graph, *cut, tiles, engine, {}, {});
    }
  }
  EXPECT_GE(plans_, 60);
}

// If an operand has a value for each channel and column, a tile reads its own columns of it.
TEST_F(TilePlans, ReadTheirPartOfWhatAllImagesShare) {
  const ConvolutionProblem whole = ProblemWith({.n = 2,
                                                .c = 64,
                                                .k = 64,
                                                .x = {1, 28, 32},
                                                .type = DataType::kBfloat16,
                                                .layout = Layout::kNhwc,
                                                .alignment = kAlignment});
  GraphOptions options;
  options.bias = options.relu = true;
  const auto cut = CutIntoTiles(whole, {.spatial = {1, 1, 2}});
  ASSERT_TRUE(cut.ok()) << cut.message();
  const auto plans = Graph(whole, options).HeuristicPlans(CUDNN_HEUR_MODE_A, 1);
  ASSERT_EQ(plans.size(), 1u);
  auto json = PlanJson(RealCudnn(), plans[0].get());
  ASSERT_TRUE(json.ok()) << json.message();
  const PlanEdit edit = {cut->kinds[0].problem};
  const std::string values = "\"dim\":[1,64,1,1]";
  const auto same = EditPlan(*json, *ReadFusedConvolution(*json), edit);
  ASSERT_TRUE(same.ok()) << same.message();
  EXPECT_NE(same->find(values), std::string::npos) << *same;
  const size_t at = json->find(values);
  ASSERT_NE(at, std::string::npos) << *json;
  json->replace(at, values.size(), "\"dim\":[1,64,1,32]");
  const auto read = ReadFusedConvolution(*json);
  ASSERT_TRUE(read.ok()) << read.message();
  const auto edited = EditPlan(*json, *read, edit);
  ASSERT_TRUE(edited.ok()) << edited.message();
  EXPECT_NE(edited->find("\"dim\":[1,64,1,16]"), std::string::npos) << *edited;
}

}  // namespace
}  // namespace ucudnn::cudnn
