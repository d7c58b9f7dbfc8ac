// Tests how divisions into tiles are measured and stored, on the stand-in.
#include "tuning/stored_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "convolution/partial_sums.h"
#include "planning/tile_divisions.h"
#include "tests/support/memory_store.h"
#include "tile_setting.h"
#include "tuning/legacy_kernel.h"
#include "tuning/verify.h"

namespace ucudnn::tuning {
namespace {

class StoredTilesTest : public TileTest {
 protected:
  // Measures the engines of `plans` on each kind of `tiles`, without a store.
  Result<RowsOfKinds> Measure(const std::vector<cudnn::GraphTemplate>& plans, const Tiles& tiles,
                              const MeasureLimits& limits = {}) {
    TileEngines engines = {ScopeOf(plans), {}, nullptr};
    for (const auto& plan : plans) engines.names.push_back(plan.convolution.engine);
    return MeasureStoredKinds(device(), plans[0].convolution.problem, tiles, engines, limits);
  }
};

std::shared_ptr<const Tiles> FourTiles(const ConvolutionProblem& whole) {
  auto tiles = CutIntoTiles(whole, {.spatial = {1, 4, 1}});
  EXPECT_TRUE(tiles.ok()) << tiles.message();
  return std::make_shared<const Tiles>(std::move(*tiles));
}

TEST_F(StoredTilesTest, EveryKindHasATimeAndAnEngine) {
  for (const Operation operation : test::kOperations) {
    for (const DataType type : {DataType::kFloat, DataType::kBfloat16}) {
      const ConvolutionProblem problem = Image(operation, type);
      SCOPED_TRACE(Describe(problem));
      const std::vector<cudnn::GraphTemplate> plans = {PlanOf(problem, 0), PlanOf(problem, 1)};
      const ConvolutionProblem& whole = plans[0].convolution.problem;
      const auto tiles = FourTiles(whole);
      const auto kinds = Measure(plans, *tiles);
      ASSERT_TRUE(kinds.ok()) << kinds.message();
      const std::vector<Division> divisions = planning::DesirableTiles(tiles, kinds->rows);
      ASSERT_FALSE(divisions.empty());
      for (const Division& division : divisions) {
        EXPECT_TRUE(division.CheckCovers(whole).ok());
        ASSERT_EQ(division.configuration.runs.size(), 3u);
        for (const auto& run : division.configuration.runs) {
          EXPECT_GT(run.micro.time_ms, 0);
          EXPECT_GE(run.micro.workspace_bytes, SumsPartials(whole) ? PartialSumBytes(whole) : 0);
        }
        const MicroConfiguration undivided = {plans[0].convolution.engine, 1, 1, 0, true};
        const Verification verified =
            VerifyPlan(device(), whole, division, undivided, {}, ScopeOf(plans));
        EXPECT_EQ(verified.result, ComparisonResult::kEqual) << verified.message;
      }
    }
  }
}

// Engine 1 needs workspace, engine 0 needs none.
TEST_F(StoredTilesTest, OnlyEnginesWithinTheLimitAreTaken) {
  const ConvolutionProblem problem = Image(Operation::kForward, DataType::kFloat);
  const std::vector<cudnn::GraphTemplate> both = {PlanOf(problem, 0), PlanOf(problem, 1)};
  const auto tiles = FourTiles(both[0].convolution.problem);
  MeasureLimits limits;
  limits.fit_bytes = 0;
  const auto kinds = Measure(both, *tiles, limits);
  ASSERT_TRUE(kinds.ok()) << kinds.message();
  for (const auto& rows : kinds->rows) {
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].engine, both[0].convolution.engine);
    EXPECT_EQ(rows[0].workspace_bytes, 0u);
  }
  const auto none = Measure({both[1]}, *tiles, limits);
  ASSERT_TRUE(none.ok()) << none.message();
  for (const auto& rows : none->rows) EXPECT_TRUE(rows.empty());
}

// With the same store nothing is measured again, not even for a larger image that is cut into the
// same tiles.
TEST_F(StoredTilesTest, WhatAStoreHoldsIsNotMeasuredAgain) {
  for (const Operation operation : test::kOperations) {
    const ConvolutionProblem problem = Image(operation, DataType::kBfloat16);
    SCOPED_TRACE(Describe(problem));
    const std::vector<cudnn::GraphTemplate> plans = {PlanOf(problem, 0), PlanOf(problem, 1)};
    const ConvolutionProblem& whole = plans[0].convolution.problem;
    test::MemoryStore store;
    const TileEngines engines = {
        ScopeOf(plans), {plans[0].convolution.engine, plans[1].convolution.engine}, &store};
    const auto measure = [&](const ConvolutionProblem& of, int parts) {
      const auto cut = CutIntoTiles(of, {.spatial = {1, parts, 1}});
      EXPECT_TRUE(cut.ok()) << cut.message();
      return MeasureStoredKinds(device(), of, *cut, engines, {});
    };
    const auto first = measure(whole, 4);
    ASSERT_TRUE(first.ok()) << first.message();
    ASSERT_EQ(first->rows.size(), 3u);
    const bool sums = SumsPartials(whole);
    EXPECT_EQ(first->measured, 3 * (2 + (sums ? 1 : 0)));
    for (const auto& kind : first->rows) {
      ASSERT_EQ(kind.size(), 2u);
      for (const MicroConfiguration& row : kind) {
        EXPECT_EQ(row.tile.spatial[1], 16);
        EXPECT_GE(row.workspace_bytes, sums ? PartialSumBytes(whole) : 0);
      }
    }
    const auto second = measure(whole, 4);
    ASSERT_TRUE(second.ok()) << second.message();
    EXPECT_EQ(second->measured, 0);
    EXPECT_EQ(second->rows, first->rows);
    ConvolutionProblem taller = whole;
    taller.x[1] = 128;
    SetPackedStrides(taller);
    const auto of_other = measure(taller, 8);
    ASSERT_TRUE(of_other.ok()) << of_other.message();
    EXPECT_EQ(of_other->measured, 0);
    EXPECT_EQ(of_other->rows, first->rows);
    EXPECT_GT(measure(whole, 2)->measured, 0) << "tiles of other extents are other kernels";
  }
}

// Views of these tiles span more than kSpan, so each tile is packed. Its copies are measured as an
// engine named "pack".
TEST_F(StoredTilesTest, CopiesOfPackedTilesAreMeasuredAndCounted) {
  for (const Operation operation : test::kOperations) {
    for (const DataType type : {DataType::kFloat, DataType::kBfloat16}) {
      const ConvolutionProblem problem = Image(operation, type);
      SCOPED_TRACE(Describe(problem));
      const std::vector<cudnn::GraphTemplate> plans = {PlanOf(problem, 0), PlanOf(problem, 1)};
      const ConvolutionProblem& whole = plans[0].convolution.problem;
      constexpr int64_t kSpan = 16 * 64 * 32;
      auto cut = CutIntoTiles(whole, {.spatial = {1, 4, 1}}, kSpan);
      ASSERT_TRUE(cut.ok()) << cut.message();
      const auto tiles = std::make_shared<const Tiles>(std::move(*cut));
      ASSERT_TRUE(tiles->kinds[1].packs_x && tiles->kinds[1].packs_y);
      test::MemoryStore store;
      const TileEngines engines = {
          ScopeOf(plans), {plans[0].convolution.engine, plans[1].convolution.engine}, &store};
      const auto first = MeasureStoredKinds(device(), whole, *tiles, engines, {});
      ASSERT_TRUE(first.ok()) << first.message();
      const bool sums = SumsPartials(whole);
      // For each of the three kinds, two engines and the copies are measured, and for a 16-bit
      // gradient also the sum.
      EXPECT_EQ(first->measured, 3 * (2 + 1 + (sums ? 1 : 0)));
      for (size_t kind = 0; kind < tiles->kinds.size(); ++kind) {
        ASSERT_EQ(first->rows[kind].size(), 2u);
        const TileKind& of = tiles->kinds[kind];
        const auto stored = store.Read(SlackTwin(of), device().platform);
        ASSERT_TRUE(stored.ok());
        const auto pack = std::find_if(stored->rows.begin(), stored->rows.end(),
                                       [](const auto& row) { return row.micro.engine == "pack"; });
        ASSERT_NE(pack, stored->rows.end());
        EXPECT_EQ(pack->micro.workspace_bytes, PackedBytes(of));
        EXPECT_GT(pack->micro.time_ms, 0);
        for (const MicroConfiguration& row : first->rows[kind]) {
          EXPECT_EQ(row.pack_ms, pack->micro.time_ms);
          EXPECT_GT(row.time_ms, row.pack_ms);
          EXPECT_GE(row.workspace_bytes, PackedBytes(of) + (sums ? PartialSumBytes(whole) : 0));
        }
      }
      const auto second = MeasureStoredKinds(device(), whole, *tiles, engines, {});
      ASSERT_TRUE(second.ok()) << second.message();
      EXPECT_EQ(second->measured, 0);
      EXPECT_EQ(second->rows, first->rows);
      MeasureLimits limits;
      limits.fit_bytes = PackedBytes(tiles->kinds[1]) - 1;
      EXPECT_FALSE(MeasureStoredKinds(device(), whole, *tiles, engines, limits).ok());
      // This limit suffices only for the copies and the sum, so engines that need workspace do not
      // fit.
      limits.fit_bytes = PackedBytes(tiles->kinds[1]) + (sums ? PartialSumBytes(whole) : 0);
      const auto fitting = MeasureStoredKinds(device(), whole, *tiles, engines, limits);
      ASSERT_TRUE(fitting.ok()) << fitting.message();
      for (const MicroConfiguration& row : fitting->rows[1]) {
        EXPECT_LE(row.workspace_bytes, *limits.fit_bytes);
      }
    }
  }
}

// The memory for measuring is too small for the undivided convolution, but not for its tiles.
TEST_F(StoredTilesTest, TakeTheMemoryOfOneTile) {
  const ConvolutionProblem problem = Image(Operation::kForward, DataType::kFloat);
  test::GraphOptions residual;
  residual.residual = true;
  for (const test::GraphOptions& options : {test::GraphOptions(), residual}) {
    const std::vector<cudnn::GraphTemplate> plans = {PlanOf(problem, 0, options)};
    const ConvolutionProblem& whole = plans[0].convolution.problem;
    MeasureLimits limits;
    limits.memory_bytes = size_t{2} * 16 * 64 * 64 * 4 / 2;  // half of x and y
    const size_t before = test::FreeBytes();
    const auto one = CutIntoTiles(whole, {});
    ASSERT_TRUE(one.ok());
    EXPECT_FALSE(Measure(plans, *one, limits).ok());
    const auto kinds = Measure(plans, *FourTiles(whole), limits);
    EXPECT_TRUE(kinds.ok()) << kinds.message();
    EXPECT_EQ(test::FreeBytes(), before);
  }
}

// If the store of an earlier process has the grids, finding them again makes no engines.
TEST_F(StoredTilesTest, WhatASearchFoundIsNotSoughtAgain) {
  for (const Operation operation : test::kOperations) {
    const ConvolutionProblem problem = Image(operation, DataType::kFloat);
    SCOPED_TRACE(OperationName(operation));
    const std::vector<cudnn::GraphTemplate> plans = {PlanOf(problem, 0), PlanOf(problem, 1)};
    int made = 0;
    GraphScope scope = ScopeOf(plans);
    scope.make = [&made, make = scope.make](cudnnHandle_t handle) {
      ++made;
      return make(handle);
    };
    Question question{plans[0].convolution.problem};
    question.scope = scope;
    question.may_measure = true;
    TilingTask task;
    for (const auto& plan : plans) task.engines.push_back(plan.convolution.engine);
    task.candidates = [](const ConvolutionProblem&, const std::vector<MicroConfiguration>& rows) {
      std::vector<planning::Candidate> candidates;
      for (const MicroConfiguration& row : rows) candidates.push_back({row});
      return candidates;
    };
    test::MemoryStore store;
    // Finds the grids within `limit_bytes` as a new process does, and counts in `made` how often it
    // makes engines.
    const auto find = [&](size_t limit_bytes) {
      MeasuredKernels kernels(&store, std::nullopt, "/nonexistent");
      question.request = planning::RequestFor(question.problem, limit_bytes, false);
      made = 0;
      planning::Tilings tilings = kernels.GetTilings(device(), question, task);
      EXPECT_TRUE(tilings.settled);
      return tilings;
    };
    const auto expect_equal = [](const planning::Tilings& a, const planning::Tilings& b) {
      EXPECT_EQ(a.least_bytes, b.least_bytes);
      EXPECT_EQ(a.why, b.why);
      EXPECT_TRUE(a.measured == b.measured);
    };
    constexpr size_t kRoom = size_t{1} << 24;
    const planning::Tilings first = find(kRoom);
    EXPECT_GT(made, 0);
    ASSERT_FALSE(first.measured.empty());
    expect_equal(find(kRoom), first);
    EXPECT_EQ(made, 0);
    // For another limit the search is made again.
    find(kRoom - 1);
    EXPECT_GT(made, 0);
    ASSERT_EQ(store.notes.size(), 2u);
    const test::MemoryStore::Note note = store.notes[0];
    for (const std::string wrong :
         {"", "0", "0 1", "0 2 1 1 1 1 2 1 ", "0 5 1 1 1 1 2 1", "-1 -1", "0 1 1 1 1 1 0 1",
          "0 1 1 1 1 1 2147483647 1", "0 1 2 1 1 1 2 1", "0 1 1 1 1 1 64 1", "words"}) {
      SCOPED_TRACE(wrong);
      store.notes = {note};
      store.notes[0].note = wrong;
      expect_equal(find(kRoom), first);
      EXPECT_GT(made, 0);
    }
    // `empty` has the note about the search, but no rows.
    test::MemoryStore empty;
    empty.notes = {note};
    MeasuredKernels kernels(&empty, std::nullopt, "/nonexistent");
    question.request = planning::RequestFor(question.problem, kRoom, false);
    EXPECT_FALSE(kernels.GetTilings(device(), question, task).measured.empty());
    EXPECT_GT(kernels.measured(), 0);
  }
}

// Refuses plans for the undivided convolution, whose x has 64 rows, unless the engine is the
// implicit GEMM.
cudnnStatus_t FinalizeWithoutOthersForTheWhole(cudnnBackendDescriptor_t descriptor) {
  const cudnnStatus_t status = test::StandInGraphs().cudnnBackendFinalize(descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const auto read = cudnn::ReadTemplate(test::StandInGraphs(), descriptor);
  const bool refused = read.ok() && read->convolution.problem.x[1] == 64 &&
                       read->convolution.engine.graph()->index > 0;
  return refused ? CUDNN_STATUS_NOT_SUPPORTED : status;
}

TEST_F(StoredTilesTest, OfLegacyKernelsHaveEnginesOfTheirOwnGraph) {
  cudnn::Functions functions = functions_;
  functions.cudnnBackendFinalize = FinalizeWithoutOthersForTheWhole;
  const Options options;
  for (const Operation operation : test::kOperations) {
    SCOPED_TRACE(OperationName(operation));
    MeasuredKernels kernels(nullptr, std::nullopt, "/nonexistent");
    LegacyKernels engines(functions, options, kernels);
    KernelToMeasure kernel{device(), Image(operation, DataType::kFloat), 0, handle_};
    kernel.device.functions = &functions;
    kernel.may_measure = true;
    const planning::Tilings tilings =
        engines.GetTilings(kernel, planning::RequestFor(kernel.problem, size_t{1} << 24, false));
    ASSERT_FALSE(tilings.measured.empty()) << tilings.why;
    Configuration configuration{{}, tilings.measured[0].grid};
    for (const planning::Tiling::Kind& kind : tilings.measured[0].kinds) {
      for (const planning::Candidate& candidate : kind.candidates) {
        const EngineId::Graph* const graph = candidate.micro.engine.graph();
        if (graph == nullptr || graph->index == 0) continue;
        configuration.runs.push_back({candidate.micro, kind.count});
        break;
      }
    }
    ASSERT_EQ(configuration.runs.size(), tilings.measured[0].kinds.size());
    EXPECT_EQ(engines.GraphEnginesOf(kernel, configuration).size(), configuration.runs.size());
    const MicroConfiguration undivided = {EngineId::Legacy{0, std::nullopt}, 1, 0, 0, true};
    const Trust trust = engines.Verify(kernel, {configuration, undivided});
    EXPECT_EQ(trust.kind, Trust::Kind::kTrusted) << trust.message;
  }
}

}  // namespace
}  // namespace ucudnn::tuning
