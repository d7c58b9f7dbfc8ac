// Tests which grids FittingGrids tries, and which of them fit a limit. The real library states the
// workspaces, without a GPU.
#include "tuning/fitting_grids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cudnn/graph_engines.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/must.h"
#include "tests/support/problem.h"

namespace ucudnn::tuning {
namespace {

using test::DescribedDevice;
using test::Graph;
using test::ProblemWith;
using test::RealCudnn;

constexpr size_t kMiB = size_t{1} << 20;

TEST(Grids, DoubleTheTilesAlongTheOutermostAxis) {
  const std::vector<TileGrid> grids = GridsOf(ProblemWith({.n = 1, .x = {1, 1024, 1024}}));
  ASSERT_EQ(grids.size(), 8u);
  for (size_t i = 0; i < grids.size(); ++i) {
    EXPECT_EQ(grids[i], (TileGrid{.spatial = {1, 2 << i, 1}}));
  }
}

// A tile cut along d reads two planes more than it computes, and a tile cut along h two rows more.
// Two planes are a larger share of 17 planes than two rows of 480 rows, so h is cut. The last grid
// has 256 parts of one or two rows. Tiles cut along both axes would be more than half as large as
// these, so the last grid cuts only h, too.
TEST(Grids, CutTheAxisOfAVolumeThatGivesTheSmallestTiles) {
  const ConvolutionProblem video = ProblemWith(
      {.spatial_rank = 3, .n = 1, .x = {17, 480, 832}, .w = {3, 3, 3}, .pad = {1, 1, 1}});
  for (const BatchSizePolicy policy : {BatchSizePolicy::kAuto, BatchSizePolicy::kPowerOfTwo}) {
    const std::vector<TileGrid> grids = GridsOf(video, policy);
    ASSERT_EQ(grids.size(), 8u);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(grids[i], (TileGrid{.spatial = {1, 2 << i, 1}}));
  }
  // In a cube, cuts along d and cuts along h make tiles of equal size, and GridsOf then cuts d. d
  // has 128 parts at most, so the 256 tiles of the last grid are cut along both axes.
  const ConvolutionProblem cube = ProblemWith(
      {.spatial_rank = 3, .n = 1, .x = {128, 128, 128}, .w = {3, 3, 3}, .pad = {1, 1, 1}});
  const std::vector<TileGrid> grids = GridsOf(cube);
  ASSERT_EQ(grids.size(), 8u);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(grids[i], (TileGrid{.spatial = {2 << i, 1, 1}}));
  EXPECT_EQ(grids[7], (TileGrid{.spatial = {16, 16, 1}}));
  EXPECT_EQ(GridsOf(cube, BatchSizePolicy::kPowerOfTwo).size(), 7u);
}

// Returns how many elements x, y and w together have in the largest tile of a forward convolution.
double LargestTile(const ConvolutionProblem& problem, const TileGrid& grid) {
  const auto tiles = CutIntoTiles(problem, grid);
  if (!tiles.ok()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (const Tile& tile : tiles->tiles) {
    double x = 1, y = 1;
    for (size_t axis = 0; axis < kTensorAxes; ++axis) {
      x *= static_cast<double>(tile.x[axis].Length());
      y *= static_cast<double>(tile.y[axis].Length());
    }
    most = std::max(most, x + y);
  }
  return most + double{1} * problem.k * problem.c * problem.w[0] * problem.w[1] * problem.w[2];
}

// GridsOf cuts both d and h only if the largest tile then has at most half as many elements as
// after a cut along one of these axes. Among cuts of equally many axes GridsOf takes the cut whose
// largest tile is the smallest.
TEST(Grids, OfRandomVolumesHaveTheSmallestTiles) {
  std::mt19937 random(1);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  int two_axes = 0;
  for (int number = 0; number < 200; ++number) {
    const int window = 2 * draw(0, 2) + 1, pad = window / 2;
    const ConvolutionProblem problem = ProblemWith({.spatial_rank = 3,
                                                    .n = 1,
                                                    .c = 4,
                                                    .k = 4,
                                                    .x = {draw(1, 40), draw(1, 300), draw(4, 60)},
                                                    .w = {window, window, 3},
                                                    .pad = {pad, pad, 1}});
    SCOPED_TRACE(Describe(problem));
    for (const TileGrid& grid : GridsOf(problem)) {
      if (grid.spatial[2] > 1) break;
      const int parts = grid.Parts();
      const bool cuts_one = grid.spatial[0] == 1 || grid.spatial[1] == 1;
      two_axes += cuts_one ? 0 : 1;
      const double own = LargestTile(problem, grid);
      for (int h = 1; h <= parts; h *= 2) {
        const double other = LargestTile(problem, {.spatial = {parts / h, h, 1}});
        const bool other_cuts_one = h == 1 || h == parts;
        const double weight = cuts_one == other_cuts_one ? 1 : cuts_one ? 2 : 0.5;
        EXPECT_GE(weight * other, own) << parts << " parts, " << h << " along h";
      }
    }
  }
  EXPECT_GT(two_axes, 20);
}

TEST(Grids, CutSingleImages) {
  const ConvolutionProblem problem = ProblemWith({.n = 3, .x = {1, 64, 64}});
  const std::vector<TileGrid> grids = GridsOf(problem);
  ASSERT_FALSE(grids.empty());
  EXPECT_EQ(grids[0], (TileGrid{.n = 3, .spatial = {1, 2, 1}}));
  for (const TileGrid& grid : grids) EXPECT_LE(grid.Parts(), kMostTiles);
  // Policy powerOfTwo cuts one axis into 2, 4, 8, ... parts, and does not cut the mini-batch.
  EXPECT_EQ(GridsOf(problem, BatchSizePolicy::kPowerOfTwo)[0], (TileGrid{.spatial = {1, 2, 1}}));
}

// If the padding is as wide as the filter, rows cannot be cut, but channels can.
TEST(Grids, CutChannelsWhereNoRowsCanBeCut) {
  const std::vector<TileGrid> grids =
      GridsOf(ProblemWith({.n = 1, .c = 8, .k = 8, .groups = 4, .w = {1, 1, 1}, .pad = {0, 1, 1}}));
  ASSERT_EQ(grids.size(), 2u);
  EXPECT_EQ(grids[1], (TileGrid{.groups = 4}));
}

// Inner tiles have no padding; tiles at an edge have padding on one side.
TEST(Grids, HaveTypicalTilesOfEveryKindAndTheCommonestFirst) {
  const ConvolutionProblem problem =
      ProblemWith({.n = 1, .c = 32, .k = 32, .x = {1, 1024, 1024}, .alignment = 16});
  const std::vector<ConvolutionProblem> tiles = TypicalTiles(problem, BatchSizePolicy::kAuto);
  ASSERT_EQ(tiles.size(), 3u);
  EXPECT_EQ(tiles[0].pad[1], 0);
  EXPECT_TRUE(tiles[0].HasEvenPads());
  EXPECT_EQ(OutputExtents(tiles[0])[1], 1024 / 8);
  for (size_t kind : {1, 2}) EXPECT_FALSE(tiles[kind].HasEvenPads());
  // 8 rows of y read 10 rows of x, which have `few` elements.
  const int64_t few = int64_t{32} * 1024 * 10;
  EXPECT_EQ(OutputExtents(TypicalTiles(problem, BatchSizePolicy::kAuto, few)[0])[1], 8);
  // Every tile spans more than one element, so TypicalTiles returns the tiles of the last grid,
  // which has 256 parts of 4 rows.
  EXPECT_EQ(OutputExtents(TypicalTiles(problem, BatchSizePolicy::kAuto, 1)[0])[1], 4);
  EXPECT_TRUE(TypicalTiles(ProblemWith({.n = 1, .c = 1, .k = 1, .w = {1, 1, 1}, .pad = {0, 1, 1}}),
                           BatchSizePolicy::kAuto)
                  .empty());
}

// Returns the plan of engine number `engine`. REQUIRES: the engine supports the problem.
cudnn::GraphTemplate TemplateOf(const ConvolutionProblem& problem, int engine) {
  return test::Must(cudnn::ReadTemplate(RealCudnn(), Graph(problem).Plan(engine).value().get()));
}

// Counts the plans that a search makes.
class CountingEngines : public cudnn::GraphEngines {
 public:
  explicit CountingEngines(const cudnn::GraphTemplate& plan)
      : GraphEngines(RealCudnn(), DescribedDevice(), {&plan}) {}
  Result<std::unique_ptr<cudnn::Piece>> MakePiece(const ConvolutionProblem& part,
                                                  const EngineId& engine,
                                                  const cudnn::PieceScales& scales,
                                                  size_t workspace_bytes) override {
    ++plans;
    return GraphEngines::MakePiece(part, engine, scales, workspace_bytes);
  }
  size_t plans = 0;
};

// Engine 62 copies x, y and the filter into another layout. Returns the bytes of the copies for
// `rows` rows of y and the rows of x that these read.
double CopiesOf(const ConvolutionProblem& problem, int rows) {
  const double row = 2.0 * problem.x[2] * problem.c;
  const int read = rows == problem.x[1] ? rows : rows + 2;
  return row * (read + rows) + 2.0 * 9 * problem.c * problem.k;
}

// Tests which tiles fit for the largest kernels of a VAE decoder at 2048 x 2048.
TEST(Grids, BringTheKernelsOfADecoderUnderALimit) {
  struct Row {
    int channels, extent, tiles_of_64_mib, tiles_of_512_mib;
  };
  constexpr Row kRows[] = {{512, 512, 16, 2},
                           {256, 1024, 32, 4},
                           {128, 1024, 16, 2},
                           {512, 1024, 64, 8},
                           {256, 2048, 128, 16}};
  constexpr double kBeside = 4096;  // how much a workspace may differ from CopiesOf, in bytes
  for (const Row& row : kRows) {
    const ConvolutionProblem problem = ProblemWith({.n = 1,
                                                    .c = row.channels,
                                                    .k = row.channels,
                                                    .x = {1, row.extent, row.extent},
                                                    .type = DataType::kBfloat16,
                                                    .alignment = 16});
    SCOPED_TRACE(Describe(problem));
    const auto plan = Graph(problem).Plan(62);
    ASSERT_TRUE(plan);
    const auto read = cudnn::ReadTemplate(RealCudnn(), plan->get());
    ASSERT_TRUE(read.ok()) << read.message();
    EXPECT_NEAR(static_cast<double>(*cudnn::PlanWorkspace(RealCudnn(), plan->get())),
                CopiesOf(problem, row.extent), kBeside);
    CountingEngines engines(*read);
    const ConvolutionProblem& whole = read->convolution.problem;
    const auto of_64 =
        FittingGrids(engines, whole, read->convolution.engine, {64 * kMiB, 50 * kMiB}).fitting;
    ASSERT_FALSE(of_64.empty());
    EXPECT_EQ(of_64[0].tiles->grid.Parts(), row.tiles_of_64_mib);
    EXPECT_NEAR(static_cast<double>(of_64[0].configuration.WorkspaceBytes()),
                CopiesOf(problem, row.extent / row.tiles_of_64_mib), kBeside);
    EXPECT_EQ(of_64[0].tiles->kinds.size(), 3u);
    EXPECT_TRUE(of_64[0].CheckCovers(whole).ok());
    ASSERT_GE(of_64.size(), 2u);
    EXPECT_EQ(of_64[1].tiles->grid.Parts(), 2 * row.tiles_of_64_mib);
    // FittingGrids makes two plans for the affine estimate of workspaces. For each grid that it
    // finds, and for one more grid whose workspace is near the limit, it makes plans for three
    // kinds of tiles.
    EXPECT_LE(engines.plans, 2 + 3 * (of_64.size() + 1));
    const auto of_512 =
        FittingGrids(engines, whole, read->convolution.engine, {512 * kMiB, 50 * kMiB}).fitting;
    ASSERT_GE(of_512.size(), 3u);
    EXPECT_LE(of_512.size(), 4u);
    EXPECT_EQ(of_512[0].tiles->grid.Parts(), row.tiles_of_512_mib);
    EXPECT_LE(of_512[2].configuration.WorkspaceBytes(), 50 * kMiB);
    EXPECT_LE(of_512.back().configuration.WorkspaceBytes(), 25 * kMiB);
  }
}

// Makes the plans of all grids. Returns every grid that the engine can run, with the workspace of
// its division.
using Needs = std::vector<std::pair<TileGrid, size_t>>;
Needs NeedsByAllPlans(CountingEngines& engines, const ConvolutionProblem& whole,
                      const EngineId& engine) {
  Needs needs;
  for (const TileGrid& grid : GridsOf(whole)) {
    const auto division =
        DivideBy(grid, engines, whole, engine, std::numeric_limits<size_t>::max());
    if (division.ok()) needs.emplace_back(grid, division->configuration.WorkspaceBytes());
  }
  return needs;
}

// Returns the grids that FittingGrids should find: the first two within the limit, the first within
// the cache and the first within half of the cache.
std::vector<TileGrid> FoundAmong(Needs fitting, const GridLimits& limits) {
  std::erase_if(fitting, [&](const auto& need) { return need.second > limits.workspace_bytes; });
  std::vector<TileGrid> chosen;
  bool of_cache = false, of_half = false;
  for (size_t i = 0; i < fitting.size(); ++i) {
    const auto& [grid, bytes] = fitting[i];
    const bool first_of_cache = !of_cache && bytes <= limits.cache_bytes;
    const bool first_of_half = !of_half && bytes <= limits.cache_bytes / 2;
    of_cache |= first_of_cache;
    of_half |= first_of_half;
    if (i < 2 || first_of_cache || first_of_half) chosen.push_back(grid);
  }
  return chosen;
}

// FittingGrids estimates workspaces from two plans, confirms the estimate by a third, and makes no
// plans for grids that do not fit.
TEST(Grids, AFewPlansFindWhatAllPlansFind) {
  size_t few = 0, all = 0;
  for (const Operation operation : test::kOperations) {
    for (const DataType type : {DataType::kBfloat16, DataType::kFloat}) {
      for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
        for (const bool volume : {false, true}) {
          const ConvolutionProblem problem =
              ProblemWith({.operation = operation,
                           .spatial_rank = volume ? 3 : 2,
                           .n = 1,
                           .c = 64,
                           .k = 64,
                           .x = {volume ? 12 : 1, volume ? 96 : 512, volume ? 96 : 512},
                           .w = {volume ? 3 : 1, 3, 3},
                           .pad = {volume ? 1 : 0, 1, 1},
                           .type = type,
                           .layout = layout,
                           .alignment = 16});
          SCOPED_TRACE(Describe(problem));
          const auto plans = Graph(problem).HeuristicPlans(CUDNN_HEUR_MODE_A, 1);
          ASSERT_FALSE(plans.empty());
          const auto read = cudnn::ReadTemplate(RealCudnn(), plans[0].get());
          ASSERT_TRUE(read.ok()) << read.message();
          const size_t need = *cudnn::PlanWorkspace(RealCudnn(), plans[0].get());
          const ConvolutionProblem& whole = read->convolution.problem;
          CountingEngines engines(*read);
          const Needs needs = NeedsByAllPlans(engines, whole, read->convolution.engine);
          const size_t made = std::exchange(engines.plans, 0);
          for (const size_t share : {2, 8, 40, 1000}) {
            const GridLimits limits = {need / share, 8 * kMiB};
            const FoundGrids found = FittingGrids(engines, whole, read->convolution.engine, limits);
            few += std::exchange(engines.plans, 0);
            std::vector<TileGrid> grids;
            for (const Division& division : found.fitting) grids.push_back(division.tiles->grid);
            EXPECT_EQ(grids, FoundAmong(needs, limits)) << limits.workspace_bytes;
            all += made;
          }
        }
      }
    }
  }
  EXPECT_GT(few, 0u);
  EXPECT_LE(2 * few, all) << few << " plans instead of " << all;
}

TEST(Grids, NoneFitsWhereOneWindowDoesNot) {
  const ConvolutionProblem problem = ProblemWith({.n = 1,
                                                  .c = 256,
                                                  .k = 256,
                                                  .x = {1, 256, 256},
                                                  .type = DataType::kBfloat16,
                                                  .alignment = 16});
  const auto read = TemplateOf(problem, 62);
  cudnn::GraphEngines engines(RealCudnn(), DescribedDevice(), {&read});
  const ConvolutionProblem& whole = read.convolution.problem;
  const FoundGrids found = FittingGrids(engines, whole, read.convolution.engine, {1024, 50 * kMiB});
  EXPECT_TRUE(found.fitting.empty());
  // The smallest tile has one row of y, which needs three rows of x.
  EXPECT_NEAR(static_cast<double>(found.least_bytes), CopiesOf(problem, 1), 4096.0);
  EXPECT_EQ(found.why, "");
  CountingEngines counted(read);
  GridLimits late = {64 * kMiB, 50 * kMiB};
  late.deadline = Clock::now();
  const FoundGrids none = FittingGrids(counted, whole, read.convolution.engine, late);
  EXPECT_TRUE(none.fitting.empty());
  EXPECT_EQ(none.why, "finding tiles takes too long");
  EXPECT_EQ(counted.plans, 0u);
  const auto refused =
      DivideBy({.spatial = {1, 2, 1}}, engines, whole, read.convolution.engine, 1024);
  EXPECT_NE(refused.message().find("graph:62"), std::string::npos) << refused.message();
}

// Engine 28 supports only padding that is equal on both sides, but tiles at an edge have padding on
// one side.
TEST(Grids, NameTheTilesThatAnEngineDoesNotServe) {
  const ConvolutionProblem problem =
      ProblemWith({.n = 1, .c = 64, .k = 64, .x = {1, 64, 64}, .alignment = 16});
  const auto read = TemplateOf(problem, 28);
  cudnn::GraphEngines engines(RealCudnn(), DescribedDevice(), {&read});
  const FoundGrids found = FittingGrids(engines, read.convolution.problem, read.convolution.engine,
                                        {512 * kMiB, 50 * kMiB});
  EXPECT_TRUE(found.fitting.empty());
  EXPECT_EQ(found.least_bytes, 0u);
  EXPECT_NE(found.why.find("graph:28 does not serve its tiles forward"), std::string::npos)
      << found.why;
}

// All tiles are packed, since their channels lie 2^26 elements apart. Packed tiles can read a bias,
// but not a residual that has the strides of the undivided y.
TEST(Grids, AreNoneWhereWhatIsFusedLiesLikeAPackedOutput) {
  const auto image = [](int extent) {
    return ProblemWith({.n = 1,
                        .c = 128,
                        .k = 128,
                        .x = {1, extent, extent},
                        .type = DataType::kBfloat16,
                        .alignment = 16});
  };
  const ConvolutionProblem problem = image(8192);
  const auto read = TemplateOf(image(512), 62);
  cudnn::GraphEngines engines(RealCudnn(), DescribedDevice(), {&read});
  const auto found = [&](const std::vector<cudnn::FusedOperand>& fused) {
    const GridLimits limits = {size_t{1} << 40, 0};
    return FittingGrids(engines, problem, read.convolution.engine, limits, fused);
  };
  const cudnn::FusedOperand bias = {.uid = 1, .strides = {0, 1, 0, 0, 0}};
  const cudnn::FusedOperand residual = {.uid = 2, .strides = problem.y_strides};
  const FoundGrids packed = found({bias});
  ASSERT_FALSE(packed.fitting.empty()) << packed.why;
  EXPECT_TRUE(packed.fitting[0].tiles->kinds[0].packs_y);
  const FoundGrids none = found({bias, residual});
  EXPECT_TRUE(none.fitting.empty());
  EXPECT_EQ(none.least_bytes, 0u);
  EXPECT_NE(none.why.find("tensor 2, which is not packed"), std::string::npos) << none.why;
}

}  // namespace
}  // namespace ucudnn::tuning
