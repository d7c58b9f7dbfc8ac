// Divisions into tiles as they are measured on the stand-in, and compared with the whole.
#include "tuning/measure_tiles.h"

#include <gtest/gtest.h>

#include <memory>

#include "convolution/partial_sums.h"
#include "cudnn/graph_engines.h"
#include "tests/support/device.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/memory_store.h"
#include "tests/support/problem.h"
#include "tests/support/stand_in.h"
#include "tuning/legacy_kernel.h"
#include "tuning/stored_tiles.h"
#include "tuning/verify.h"

namespace ucudnn::tuning {
namespace {

using test::Graph;
using test::ProblemWith;

class MeasureTilesTest : public test::DeviceTest {
 protected:
  MeasureTilesTest() { EXPECT_EQ(functions_.cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS); }
  ~MeasureTilesTest() override {
    EXPECT_EQ(functions_.cudnnDestroy(handle_), CUDNN_STATUS_SUCCESS);
  }

  // The plan of one of the stand-in's engines.
  cudnn::GraphTemplate PlanOf(const ConvolutionProblem& problem, int engine) {
    const Graph graph(problem, {}, functions_, {handle_, nullptr});
    const auto plan = graph.Plan(engine);
    EXPECT_TRUE(plan);
    auto read = cudnn::ReadTemplate(functions_, plan->get());
    EXPECT_TRUE(read.ok()) << read.message();
    return std::move(*read);
  }

  GraphScope ScopeOf(const std::vector<cudnn::GraphTemplate>& plans) {
    std::vector<const cudnn::GraphTemplate*> pointers;
    for (const cudnn::GraphTemplate& plan : plans) pointers.push_back(&plan);
    return {plans[0].convolution.engine, NumericClass::kDirect, {}, [this, pointers](auto handle) {
              return std::make_unique<cudnn::GraphEngines>(
                  functions_, cudnn::PlanDevice{handle, nullptr}, pointers);
            }};
  }

  Device device() const { return {cuda::GetDriver(), &functions_, context, {}}; }

  const cudnn::Functions functions_ = test::StandInGraphs();
  cudnnHandle_t handle_ = nullptr;
};

ConvolutionProblem Image(Operation operation, DataType type) {
  return ProblemWith({.operation = operation,
                      .n = 1,
                      .c = 16,
                      .k = 16,
                      .x = {1, 64, 64},
                      .type = type,
                      .alignment = 16});
}

TEST_F(MeasureTilesTest, EveryKindHasATimeAndAnEngine) {
  for (const Operation operation : test::kOperations) {
    for (const DataType type : {DataType::kFloat, DataType::kBfloat16}) {
      const ConvolutionProblem problem = Image(operation, type);
      SCOPED_TRACE(Describe(problem));
      const std::vector<cudnn::GraphTemplate> plans = {PlanOf(problem, 0), PlanOf(problem, 1)};
      const ConvolutionProblem& whole = plans[0].convolution.problem;
      const GraphScope scope = ScopeOf(plans);
      const auto division = MeasureTiles(device(), whole, {.spatial = {1, 4, 1}}, scope, {});
      ASSERT_TRUE(division.ok()) << division.message();
      EXPECT_TRUE(division->CheckCovers(whole).ok());
      ASSERT_EQ(division->configuration.runs.size(), 3u);
      for (const auto& run : division->configuration.runs) {
        EXPECT_GT(run.micro.time_ms, 0);
        EXPECT_GE(run.micro.workspace_bytes, SumsPartials(whole) ? PartialSumBytes(whole) : 0);
      }
      const MicroConfiguration undivided = {plans[0].convolution.engine, 1, 1, 0, true};
      const Verification verified = VerifyPlan(device(), whole, *division, undivided, {}, scope);
      EXPECT_EQ(verified.verdict, Verdict::kEqual) << verified.message;
    }
  }
}

// Engine 1 needs workspace, engine 0 none.
TEST_F(MeasureTilesTest, OnlyEnginesWithinTheLimitAreTaken) {
  const ConvolutionProblem problem = Image(Operation::kForward, DataType::kFloat);
  const std::vector<cudnn::GraphTemplate> both = {PlanOf(problem, 0), PlanOf(problem, 1)};
  const ConvolutionProblem& whole = both[0].convolution.problem;
  MeasureLimits limits;
  limits.fit_bytes = 0;
  const auto division =
      MeasureTiles(device(), whole, {.spatial = {1, 4, 1}}, ScopeOf(both), limits);
  ASSERT_TRUE(division.ok()) << division.message();
  for (const auto& run : division->configuration.runs) {
    EXPECT_EQ(run.micro.engine, both[0].convolution.engine);
    EXPECT_EQ(run.micro.workspace_bytes, 0u);
  }
  const std::vector<cudnn::GraphTemplate> one = {PlanOf(problem, 1)};
  const auto none = MeasureTiles(device(), whole, {.spatial = {1, 4, 1}}, ScopeOf(one), limits);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.message().find("within 0 bytes"), std::string::npos) << none.message();
}

// The second process measures nothing, and other images that are cut into the same tiles find them.
TEST_F(MeasureTilesTest, WhatAStoreHoldsIsNotMeasuredAgain) {
  for (const Operation operation : test::kOperations) {
    const ConvolutionProblem problem = Image(operation, DataType::kBfloat16);
    SCOPED_TRACE(Describe(problem));
    const std::vector<cudnn::GraphTemplate> plans = {PlanOf(problem, 0), PlanOf(problem, 1)};
    const ConvolutionProblem& whole = plans[0].convolution.problem;
    test::MemoryStore store;
    const TileEngines engines = {
        ScopeOf(plans), {plans[0].convolution.engine, plans[1].convolution.engine}, &store};
    const auto measure = [&](const ConvolutionProblem& of, int parts) {
      const auto tiles = CutIntoTiles(of, {.spatial = {1, parts, 1}});
      EXPECT_TRUE(tiles.ok()) << tiles.message();
      return MeasureStoredKinds(device(), of, *tiles, engines, {});
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

// The whole does not fit into what measuring may take, its tiles do.
TEST_F(MeasureTilesTest, TakesTheMemoryOfOneTile) {
  const ConvolutionProblem problem = Image(Operation::kForward, DataType::kFloat);
  const std::vector<cudnn::GraphTemplate> plans = {PlanOf(problem, 0)};
  const ConvolutionProblem& whole = plans[0].convolution.problem;
  MeasureLimits limits;
  limits.memory_bytes = size_t{2} * 16 * 64 * 64 * 4 / 2;  // half of x and y
  const size_t before = test::FreeBytes();
  EXPECT_FALSE(MeasureTiles(device(), whole, {}, ScopeOf(plans), limits).ok());
  const auto division =
      MeasureTiles(device(), whole, {.spatial = {1, 4, 1}}, ScopeOf(plans), limits);
  EXPECT_TRUE(division.ok()) << division.message();
  EXPECT_EQ(test::FreeBytes(), before);
}

// Of the graph API, the whole has the implicit GEMM alone.
cudnnStatus_t FinalizeWithoutOthersForTheWhole(cudnnBackendDescriptor_t descriptor) {
  const cudnnStatus_t status = test::StandInGraphs().cudnnBackendFinalize(descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const auto read = cudnn::ReadTemplate(test::StandInGraphs(), descriptor);
  const bool refused = read.ok() && read->convolution.problem.x[1] == 64 &&
                       read->convolution.engine.graph()->index > 0;
  return refused ? CUDNN_STATUS_NOT_SUPPORTED : status;
}

TEST_F(MeasureTilesTest, LegacyTilesHaveEnginesOfTheirOwnGraph) {
  cudnn::Functions functions = functions_;
  functions.cudnnBackendFinalize = FinalizeWithoutOthersForTheWhole;
  const Options options;
  for (const Operation operation : test::kOperations) {
    SCOPED_TRACE(OperationName(operation));
    MeasuredKernels kernels(nullptr, std::nullopt, "/nonexistent");
    LegacyKernels engines(functions, options, kernels);
    LegacyKernel kernel{device(), Image(operation, DataType::kFloat), 0, handle_};
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
    const Trust trust = engines.Verify(kernel, configuration, undivided, planning::Proof::kOnce);
    EXPECT_EQ(trust.kind, Trust::Kind::kTrusted) << trust.message;
  }
}

}  // namespace
}  // namespace ucudnn::tuning
