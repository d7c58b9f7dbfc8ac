// Tests execution plans of the graph API that are divided within the workspace promised for them.
#include "interposer/graph/graph_plans.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "graph_setting.h"

namespace ucudnn::interposer {
namespace {

using test::Executions;
using test::ExpectSubstitute;
using test::ExpectUndivided;
using test::GraphSetting;
using test::RecordedExecution;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

uintptr_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

TEST(GraphPlans, DividesInsideItsPromise) {
  GraphSetting setting;
  const auto plan = setting.Plan();
  EXPECT_EQ(setting.Workspace(plan), GraphSetting::kPartBytes);
  ASSERT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
  ASSERT_THAT(Executions().calls, SizeIs(4));
  for (size_t i = 0; i < 4; ++i) {
    const RecordedExecution& piece = Executions().calls[i];
    EXPECT_EQ(piece.engine, 38);
    EXPECT_EQ(piece.images, 4);
    EXPECT_EQ(Address(piece.x), 0x10000000 + i * 4 * 256 * sizeof(float));
    EXPECT_EQ(Address(piece.w), 0x20000000u);
    EXPECT_EQ(Address(piece.y), 0x30000000 + i * 4 * 512 * sizeof(float));
    EXPECT_EQ(Address(piece.workspace), 0x40000000u);
    EXPECT_FALSE(piece.adds);
  }
  setting.interposer.graph().Destroy(plan);
}

TEST(GraphPlans, ReportsWhatWasDecided) {
  GraphSetting setting;
  const auto plan = setting.Plan();
  setting.Execute(plan);
  setting.Execute(plan);
  const std::string report = setting.ReportText();
  EXPECT_THAT(report, HasSubstr("\"api\": \"graph\""));
  EXPECT_THAT(report, HasSubstr("\"engine\": \"graph:38\""));
  EXPECT_THAT(report, HasSubstr("\"calls\": 2"));
  EXPECT_THAT(report, HasSubstr("\"count\": 4"));
  EXPECT_THAT(report, HasSubstr("\"limit_bytes\": 4096"));
}

// A native CUDA graph counts as a call on the handle with which it was made.
TEST(GraphPlans, ReportsTheStreamsThatPlansRanOn) {
  for (const bool ordered : {false, true}) {
    SCOPED_TRACE(ordered ? "handles in order" : "handles by themselves");
    GraphSetting setting;
    cudnnHandle_t other = nullptr;
    ASSERT_EQ(setting.interposer.sessions().Create(&other), CUDNN_STATUS_SUCCESS);
    if (ordered) {
      EXPECT_TRUE(setting.interposer.sessions().DeclareOrder(setting.handle, other).ok())
          << "no budget";
    }
    const auto streams = [&] {
      const auto report = nlohmann::json::parse(setting.ReportText());
      return report["kernels"][0]["lanes"].get<std::vector<int>>();
    };
    const auto plan = setting.Plan();
    EXPECT_THAT(streams(), IsEmpty());
    setting.Execute(plan);
    EXPECT_THAT(streams(), ElementsAre(0));
    const auto pack = setting.Pack();
    CUgraph native = nullptr;
    ASSERT_EQ(cuGraphCreate(&native, 0), CUDA_SUCCESS);
    EXPECT_EQ(setting.interposer.graph().PopulateCudaGraph(other, plan, pack, native),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(streams(), (ordered ? std::vector{0} : std::vector{0, 1}));
    EXPECT_EQ(cuGraphDestroy(native), CUDA_SUCCESS);
    CUstream stream = nullptr;
    ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(setting.interposer.sessions().SetStream(setting.handle, stream),
              CUDNN_STATUS_SUCCESS);
    setting.Execute(plan);
    EXPECT_EQ(streams(), (ordered ? std::vector{0} : std::vector{0, 1, 2}));
    setting.interposer.graph().Destroy(pack);
    setting.interposer.graph().Destroy(plan);
    EXPECT_EQ(setting.interposer.sessions().Destroy(other), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  }
}

TEST(GraphPlans, PiecesBeyondTwoToThe31ElementsLieWhereTheirImagesAre) {
  GraphSetting setting({.x_step = 3'000'000'000, .y_step = 5'000'000'000, .fused = true});
  ASSERT_EQ(setting.Execute(setting.Plan()), CUDNN_STATUS_SUCCESS);
  ASSERT_THAT(Executions().calls, SizeIs(4));
  for (size_t i = 0; i < 4; ++i) {
    const RecordedExecution& piece = Executions().calls[i];
    EXPECT_EQ(Address(piece.x), 0x10000000 + i * 4 * 3'000'000'000 * sizeof(float));
    EXPECT_EQ(Address(piece.y), 0x30000000 + i * 4 * 5'000'000'000 * sizeof(float));
    EXPECT_EQ(Address(piece.residual), 0x50000000 + i * 4 * 5'000'000'000 * sizeof(float));
    EXPECT_EQ(Address(piece.w), 0x20000000u);
  }
}

TEST(GraphPlans, BackwardFilterAddsUp) {
  GraphSetting setting({.operation = Operation::kBackwardFilter});
  ASSERT_EQ(setting.Execute(setting.Plan()), CUDNN_STATUS_SUCCESS);
  ASSERT_THAT(Executions().calls, SizeIs(4));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(Executions().calls[i].adds, i > 0);
    EXPECT_EQ(Address(Executions().calls[i].w), 0x20000000u);
  }
}

TEST(GraphPlans, WhatIsFusedMovesAlong) {
  GraphSetting setting({.fused = true});
  const auto plan = setting.Plan();
  EXPECT_EQ(setting.Workspace(plan), GraphSetting::kPartBytes);
  ASSERT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
  ASSERT_THAT(Executions().calls, SizeIs(4));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(Address(Executions().calls[i].residual), 0x50000000 + i * 4 * 512 * sizeof(float));
    EXPECT_EQ(Address(Executions().calls[i].bias), 0x60000000u);
  }
}

TEST(GraphPlans, WithoutALimitAPlanIsDividedOnlyForAGain) {
  GraphSetting faster(test::PlannedSetting::NotMeasuring(), {});
  const auto plan = faster.Plan();
  EXPECT_EQ(faster.Workspace(plan), GraphSetting::kNeed);
  faster.Execute(plan);
  EXPECT_THAT(Executions().calls, SizeIs(4));

  GraphSetting slower(test::PlannedSetting::NotMeasuring(), {.whole_ms = 100, .part_ms = 25});
  slower.Execute(slower.Plan());
  ExpectUndivided(38);
}

TEST(GraphPlans, APlanThatFitsIsLeftAsItIs) {
  GraphSetting setting(GraphSetting::Limited(GraphSetting::kNeed),
                       {.whole_ms = 100, .part_ms = 100});
  const auto plan = setting.Plan();
  EXPECT_EQ(setting.Workspace(plan), GraphSetting::kNeed);
  setting.Execute(plan);
  EXPECT_THAT(Executions().calls, SizeIs(1));
  EXPECT_THAT(setting.ReportText(), HasSubstr("\"fallbacks\": []"));
}

TEST(GraphPlans, AFailedPieceIsReplacedInsideThePromise) {
  for (const int fail_at : {0, 2}) {
    GraphSetting setting;
    const auto plan = setting.Plan();
    Executions().fail_at = fail_at;
    EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
    ASSERT_THAT(Executions().calls, SizeIs(fail_at + 2));
    EXPECT_EQ(Executions().calls.back().engine, 0);
    EXPECT_EQ(Executions().calls.back().images, GraphSetting::kImages);
    Executions() = {};
    EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
    ExpectSubstitute();
    EXPECT_EQ(setting.Workspace(plan), GraphSetting::kPartBytes);
    EXPECT_THAT(setting.ReportText(), HasSubstr("a piece failed"));
  }
}

TEST(GraphPlans, AFailedSumIsTheRealError) {
  GraphSetting setting({.operation = Operation::kBackwardFilter});
  const auto plan = setting.Plan();
  Executions().fail_at = 2;
  // With beta = 0 the first piece replaced the output's content, so the undivided plan may still
  // run.
  EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
  std::string adding = setting.Json();
  adding.replace(adding.find("\"beta\":0.0"), 10, "\"beta\":1.0");
  const auto sums = setting.Plan(nullptr, adding);
  EXPECT_EQ(setting.Workspace(sums), GraphSetting::kPartBytes);
  Executions() = {};
  Executions().fail_at = 2;
  EXPECT_EQ(setting.Execute(sums), CUDNN_STATUS_EXECUTION_FAILED);
  EXPECT_THAT(Executions().calls, SizeIs(3));
}

TEST(GraphPlans, ACaptureHoldsPiecesOnlyAfterTheyRan) {
  GraphSetting setting;
  const auto plan = setting.Plan();
  test::HandleStream stream(setting.interposer, setting.handle);
  const auto execute = [&] { EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS); };
  stream.Capture(execute);
  ExpectSubstitute();
  execute();
  Executions() = {};
  stream.Capture(execute);
  EXPECT_THAT(Executions().calls, SizeIs(4));
}

TEST(GraphPlans, TheWorkspaceForAPackIsThePromise) {
  GraphSetting setting;
  interposer::GraphPlans& graph = setting.interposer.graph();
  const auto plan = setting.Plan();
  const auto pack = setting.Pack();
  size_t bytes = 0;
  EXPECT_EQ(graph.WorkspaceSize(setting.handle, plan, pack, &bytes), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(bytes, GraphSetting::kPartBytes);
  // A call with other shapes runs undivided, by engine 0 in place of the plan's engine.
  // RecordingGraphs reports a workspace of 100 + E bytes for engine E.
  const int64_t shapes[] = {8, 4, 8, 8};
  graph.Set(pack, CUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES, CUDNN_TYPE_INT64, 4, shapes);
  EXPECT_EQ(graph.WorkspaceSize(setting.handle, plan, pack, &bytes), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(bytes, 100u);
  graph.Destroy(pack);
  // This plan was promised its full need, so the real library answers the query: 100 + 28 bytes for
  // engine 28.
  const auto other = setting.Plan(nullptr, setting.Json(28));
  const auto plain = setting.Pack();
  EXPECT_EQ(graph.WorkspaceSize(setting.handle, other, plain, &bytes), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(bytes, 128u);
  graph.Destroy(plain);
}

TEST(GraphPlans, APackWithOtherShapesIsNotDivided) {
  GraphSetting setting;
  const auto plan = setting.Plan();
  const auto pack = setting.PackOfOtherShapes();
  EXPECT_EQ(setting.interposer.graph().Execute(setting.handle, plan, pack), CUDNN_STATUS_SUCCESS);
  ExpectSubstitute();
  setting.interposer.graph().Destroy(pack);
}

TEST(GraphPlans, APackOfAnotherThreadIsDividedAsWell) {
  GraphSetting setting;
  const auto plan = setting.Plan();
  cudnnBackendDescriptor_t pack = nullptr;
  std::thread([&] { pack = setting.Pack(); }).join();
  EXPECT_EQ(setting.interposer.graph().Execute(setting.handle, plan, pack), CUDNN_STATUS_SUCCESS);
  EXPECT_THAT(Executions().calls, SizeIs(4));
  setting.interposer.graph().Destroy(pack);
}

TEST(GraphPlans, EqualPlansGetEqualPromises) {
  GraphSetting setting;
  const auto first = setting.Plan();
  const int reads = setting.store.reads;
  const auto second = setting.Plan();
  EXPECT_EQ(setting.store.reads, reads);
  EXPECT_EQ(setting.Workspace(second), setting.Workspace(first));
  // An equal plan keeps its pieces when the first plan is destroyed.
  setting.interposer.graph().Destroy(first);
  setting.Execute(second);
  EXPECT_THAT(Executions().calls, SizeIs(4));
}

TEST(GraphPlans, ADestroyedPlanIsForgotten) {
  GraphSetting setting;
  const auto plan = setting.Plan();
  setting.interposer.graph().Destroy(plan);
  // The null library gives the new plan the address of the destroyed one.
  const auto other = setting.Plan(nullptr, setting.Json(28));
  ASSERT_EQ(other, plan);
  EXPECT_EQ(setting.Workspace(other), 0u);
  setting.Execute(other);
  ExpectUndivided(28);
}

TEST(GraphPlans, WhereNothingIsKnownTheFirstOfAListKeepsTheLimitUndivided) {
  GraphSetting setting(test::Unmeasured());
  const auto plan = setting.PlanOfRank(0);
  EXPECT_EQ(setting.Workspace(plan), 0u);
  setting.Execute(plan);
  ExpectSubstitute();
}

// A program may time the plans of a list against each other. If all of them changed to the one
// engine that fits, the promise of that engine would leave no workspace for pieces in the next
// process.
TEST(GraphPlans, WhereNothingIsKnownOtherPlansKeepTheirEngine) {
  for (const bool strict : {false, true}) {
    GraphSetting setting(GraphSetting::Limited(GraphSetting::kPartBytes, strict),
                         test::Unmeasured());
    cudnnStatus_t finalized = CUDNN_STATUS_INTERNAL_ERROR;
    const auto plan = setting.PlanOfRank(1, {}, &finalized);
    EXPECT_EQ(finalized, strict ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS);
    EXPECT_THAT(setting.ReportText(), HasSubstr("cannot be brought under the workspace limit"));
    EXPECT_THAT(setting.store.promises, SizeIs(0));
    if (strict) continue;
    EXPECT_EQ(setting.Workspace(plan), GraphSetting::kNeed);
    setting.Execute(plan);
    ExpectUndivided(38);
  }
}

TEST(GraphPlans, WhatCannotFitReportsItsNeed) {
  for (const bool strict : {false, true}) {
    GraphSetting setting(GraphSetting::Limited(GraphSetting::kPartBytes - 1, strict), {});
    cudnnStatus_t finalized;
    const auto plan = setting.Plan(&finalized);
    EXPECT_EQ(finalized, strict ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS);
    EXPECT_THAT(setting.ReportText(), HasSubstr("cannot be brought under the workspace limit"));
    if (strict) continue;
    EXPECT_EQ(setting.Workspace(plan), GraphSetting::kNeed);
    setting.Execute(plan);
    ExpectUndivided(38);
  }
}

// The store says that pieces need less workspace than they really need.
TEST(GraphPlans, PiecesThatCannotBePreparedLeaveTheUndividedEngine) {
  for (const bool strict : {false, true}) {
    GraphSetting setting(GraphSetting::Limited(GraphSetting::kPartBytes, strict),
                         {.measured = false});
    setting.Measured("graph:38", GraphSetting::kImages, 100, GraphSetting::kNeed);
    setting.Measured("graph:38", GraphSetting::kPart, 1, GraphSetting::kPartBytes / 2);
    const auto plan = setting.PlanOfRank(0);
    EXPECT_LE(setting.Workspace(plan), GraphSetting::kPartBytes);
    ASSERT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
    ExpectSubstitute();
    EXPECT_THAT(setting.ReportText(), HasSubstr("a plan could not be prepared"));
  }
}

TEST(GraphPlans, OnlyTheFirstOfAListMayChangeItsEngine) {
  for (const int rank : {0, 1}) {
    GraphSetting setting({.other_ms = 0.5});  // the other engine is faster than four pieces
    const auto plan = setting.PlanOfRank(rank);
    // A plan that is built again from its engine gets the same promise.
    EXPECT_EQ(setting.Workspace(plan), GraphSetting::kPartBytes);
    EXPECT_EQ(setting.Workspace(setting.Plan()), GraphSetting::kPartBytes);
    setting.Execute(plan);
    if (rank == 0) {
      ExpectSubstitute();
    } else {
      EXPECT_THAT(Executions().calls, SizeIs(4));
    }
  }
}

TEST(GraphPlans, ObservingChangesNothing) {
  Options options = GraphSetting::Limited(GraphSetting::kPartBytes);
  options.mode = Mode::kObserve;
  GraphSetting setting(options, {});
  const auto plan = setting.Plan();
  EXPECT_EQ(setting.Workspace(plan), GraphSetting::kNeed);
  setting.Execute(plan);
  EXPECT_THAT(Executions().calls, SizeIs(1));
  EXPECT_THAT(setting.interposer.report().Json("observe", 0), HasSubstr("observed"));
}

TEST(GraphPlans, RowsOfGraphsAreNoLegacyMeasurements) {
  GraphSetting setting;
  ASSERT_EQ(setting.Execute(setting.Plan()), CUDNN_STATUS_SUCCESS);
  EXPECT_THAT(setting.ReportText(), AllOf(HasSubstr("\"graph:38\""), Not(HasSubstr("legacy:"))));
}

}  // namespace
}  // namespace ucudnn::interposer
