// Tests execution plans under one workspace budget. The program is told that each plan needs 0
// bytes. Pieces run in ucudnn's memory, never in the application's.
#include "graph_owned_setting.h"
#include "shim/host/hostgpu.h"

namespace ucudnn::interposer {
namespace {

using test::Executions;
using test::GraphSetting;
using test::HandleStream;
using test::kLearning;
using test::kPart;
using test::kPieces;
using test::RecordedExecution;
using test::Shared;
using ::testing::Each;
using ::testing::Field;
using ::testing::SizeIs;

TEST(GraphOwned, PiecesRunInOwnedMemoryBeforeAndAfterTheDivision) {
  for (const Operation operation : test::kOperations) {
    for (const bool fused : {false, true}) {
      if (fused && operation != Operation::kForward) continue;
      SCOPED_TRACE(OperationName(operation) + std::string(fused ? " fused" : ""));
      Shared setting({.operation = operation, .fused = fused});
      const auto plan = setting.Plan();
      EXPECT_EQ(setting.Workspace(plan), 0u);
      setting.Ran(plan);
      setting.Learn(plan);
      const void* const own = setting.Ran(plan);
      EXPECT_EQ(setting.Ran(plan), own) << "kept";
      EXPECT_EQ(setting.Workspace(plan), 0u);
      const bool adds = operation == Operation::kBackwardFilter;
      for (int piece = 0; piece < kPieces; ++piece) {
        EXPECT_EQ(Executions().calls[piece].adds, adds && piece > 0) << piece;
      }
      EXPECT_EQ(setting.Report()["fallbacks"].dump(), "[]");
    }
  }
}

TEST(GraphOwned, TheApplicationsPackIsNeverChanged) {
  Shared setting;
  const auto plan = setting.Plan();
  const auto pack = setting.Pack();
  for (size_t call = 0; call <= kLearning; ++call) {
    EXPECT_EQ(setting.interposer.graph().Execute(setting.handle, plan, pack), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(nullGraphWorkspace(pack), GraphSetting::Pointer(0x40000000));
    EXPECT_EQ(nullGraphPointer(pack, test::kX), GraphSetting::Pointer(0x10000000));
  }
  setting.interposer.graph().Destroy(pack);
}

TEST(GraphOwned, ThePlanItselfRunsWholeWhereThatIsFastest) {
  Shared setting({.whole_ms = 1, .part_ms = 100});
  const auto plan = setting.Plan();
  for (size_t call = 0; call <= kLearning; ++call) {
    const auto& calls = setting.Run(plan);
    ASSERT_THAT(calls, SizeIs(1));
    EXPECT_EQ(calls[0].engine, 38);
    EXPECT_NE(calls[0].workspace, GraphSetting::Pointer(0x40000000));
  }
  const auto kernel = setting.Report()["kernels"].back();
  EXPECT_EQ(kernel["owned_workspace_bytes"], GraphSetting::kNeed);
  EXPECT_EQ(kernel["workspace_bytes"], 0);
}

TEST(GraphOwned, IsStatedAndInsideTheBudget) {
  Shared setting;
  const auto plan = setting.Plan();
  setting.Learn(plan);
  const auto total = setting.Total();
  EXPECT_EQ(total["divided"], true);
  EXPECT_EQ(total["kernels"], 1);
  EXPECT_EQ(total["total_workspace_bytes"], kPart);
  const auto report = setting.Report();
  long calls = 0;
  for (const auto& kernel : report["kernels"]) calls += kernel["calls"].get<long>();
  EXPECT_EQ(calls, kLearning + 1);
  const auto& kernel = report["kernels"].back();
  EXPECT_EQ(kernel["api"], "graph");
  EXPECT_EQ(kernel["workspace_bytes"], 0);
  EXPECT_EQ(kernel["owned_workspace_bytes"], kPart);
  EXPECT_EQ(kernel["limit_bytes"], kPart) << "its share";
  EXPECT_EQ(kernel["plan"][0]["count"], kPieces);
}

TEST(GraphOwned, WhereTheBudgetIsShortTheSubstituteRuns) {
  Shared enough({}, kPart);
  const auto plan = enough.Plan();
  enough.Learn(plan);
  enough.Ran(plan);
  EXPECT_EQ(enough.TheBudget().bytes(), kPart);
  Shared lacking({}, kPart - 1);
  const auto other = lacking.Plan();
  EXPECT_EQ(lacking.Workspace(other), 0u);
  for (size_t call = 0; call <= kLearning; ++call) lacking.ExpectSubstitute(other);
  EXPECT_EQ(lacking.TheBudget().bytes(), 0u);
}

TEST(GraphOwned, WithoutDeviceMemoryTheSubstituteRuns) {
  Shared setting;
  const auto plan = setting.Plan();
  hostgpuInjectFault("alloc", 1);
  setting.ExpectSubstitute(plan);
  hostgpuInjectFault("alloc", 0);
  setting.Learn(plan);
  setting.Ran(plan);
}

TEST(GraphOwned, WhatNobodyMeasuredRunsAsTheSubstituteUntilSomebodyDoes) {
  Shared setting(test::Unmeasured());
  const auto plan = setting.Plan();
  EXPECT_EQ(setting.Workspace(plan), 0u);
  setting.Learn(plan);
  setting.ExpectSubstitute(plan);
  setting.Measured("graph:38", GraphSetting::kPart, 1, kPart);
  setting.Measured("graph:38", GraphSetting::kImages, 100, GraphSetting::kNeed);
  setting.Measured("graph:0", GraphSetting::kImages, 50, 0);
  // A plan is decided anew once its number of calls has doubled.
  for (size_t call = 0; call < 2 * kLearning; ++call) setting.Run(plan);
  setting.Ran(plan);
  EXPECT_EQ(setting.Workspace(plan), 0u);
}

TEST(GraphOwned, APlanOfOneImageIsInItToo) {
  const GraphSetting::With one_image = {.images = 1, .other = false, .measured = false};
  GraphSetting without_budget(test::PlannedSetting::NotMeasuring(), one_image);
  EXPECT_EQ(without_budget.Workspace(without_budget.Plan()), 1024u);
  Shared setting(one_image);
  EXPECT_EQ(setting.Workspace(setting.Plan()), 0u);
}

TEST(GraphOwned, OfTwoStreamsIsApart) {
  for (const bool known : {false, true}) {
    SCOPED_TRACE(known ? "known" : "learning");
    Shared setting;
    const auto plan = setting.Plan();
    if (known) setting.Learn(plan);
    const void* const first = setting.Ran(plan);
    {
      HandleStream stream(setting.interposer, setting.handle);
      EXPECT_NE(setting.Ran(plan), first);
    }
    EXPECT_EQ(setting.Ran(plan), first);
  }
}

TEST(GraphOwned, AStreamThatFindsNoneLeftRunsTheSubstitute) {
  Shared setting({}, kPart);
  const auto plan = setting.Plan();
  setting.Learn(plan);
  const void* const first = setting.Ran(plan);
  {
    HandleStream stream(setting.interposer, setting.handle);
    setting.ExpectSubstitute(plan);
  }
  EXPECT_EQ(setting.Ran(plan), first);
}

TEST(GraphOwned, OfACaptureIsItsOwn) {
  Shared setting;
  HandleStream other(setting.interposer, setting.handle);
  const auto plan = setting.Plan();
  const auto captured = [&](int calls) {
    Executions() = {};
    other.Capture([&] {
      for (int call = 0; call < calls; ++call) {
        EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
      }
    });
    return Executions().calls;
  };
  EXPECT_THAT(captured(1), SizeIs(1)) << "it never ran outside";
  setting.Ran(plan);
  EXPECT_THAT(captured(1), SizeIs(1)) << "none is ready";
  setting.Learn(plan);
  const void* const outside = setting.Ran(plan);
  const std::vector<RecordedExecution> pieces = captured(2);
  ASSERT_THAT(pieces, SizeIs(2 * kPieces));
  EXPECT_NE(pieces[0].workspace, outside);
  EXPECT_NE(pieces[0].workspace, GraphSetting::Pointer(0x40000000));
  EXPECT_THAT(pieces, Each(Field(&RecordedExecution::workspace, pieces[0].workspace)));
  EXPECT_THAT(captured(1), SizeIs(1)) << "never another graph's";
  EXPECT_EQ(setting.Ran(plan), outside);
  other.DestroyGraphs();
  EXPECT_THAT(captured(1), SizeIs(kPieces)) << "no graph has it any more";
  EXPECT_EQ(setting.Ran(plan), outside);
  other.DestroyGraphs();
}

TEST(GraphOwned, WhereAPieceFailsTheSubstituteTakesItsPlaceForEver) {
  for (const bool known : {false, true}) {
    for (int piece = 0; piece < kPieces; ++piece) {
      SCOPED_TRACE(std::to_string(piece) + (known ? " known" : " learning"));
      Shared setting;
      const auto plan = setting.Plan();
      if (known) setting.Learn(plan);
      Executions() = {};
      Executions().fail_at = piece;
      EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
      ASSERT_THAT(Executions().calls, SizeIs(piece + 2));
      EXPECT_EQ(Executions().calls.back().engine, 0);
      EXPECT_EQ(Executions().calls.back().images, GraphSetting::kImages);
      for (size_t call = 0; call < kLearning; ++call) setting.ExpectSubstitute(plan);
      EXPECT_THAT(setting.Report()["fallbacks"].dump(), ::testing::HasSubstr("a piece failed"));
    }
  }
}

// A gradient to which pieces were added cannot be computed again.
TEST(GraphOwned, AnErrorThatCannotBeHealedIsTheRealOne) {
  Shared setting({.operation = Operation::kBackwardFilter});
  std::string json = setting.Json();
  const std::string beta = "\"beta\":0.0";
  json.replace(json.find(beta), beta.size(), "\"beta\":1.0");
  const auto plan = setting.Plan(nullptr, json);
  setting.Learn(plan);
  setting.Ran(plan);
  Executions() = {};
  Executions().fail_at = 2;
  EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_EXECUTION_FAILED);
  setting.ExpectSubstitute(plan);
}

TEST(GraphOwned, NativeGraphsGoWithout) {
  Shared setting;
  const auto plan = setting.Plan();
  const auto pack = setting.Pack();
  setting.Learn(plan);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  Executions() = {};
  for (const bool update : {false, true}) {
    auto& graphs = setting.interposer.graph();
    EXPECT_EQ(update ? graphs.UpdateCudaGraph(setting.handle, plan, pack, graph)
                     : graphs.PopulateCudaGraph(setting.handle, plan, pack, graph),
              CUDNN_STATUS_SUCCESS);
  }
  ASSERT_THAT(Executions().calls, SizeIs(2));
  for (const RecordedExecution& call : Executions().calls) {
    EXPECT_EQ(call.engine, 0);
    EXPECT_EQ(call.images, GraphSetting::kImages);
    EXPECT_EQ(call.workspace, GraphSetting::Pointer(0x40000000));
    EXPECT_EQ(call.graph, graph);
  }
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  setting.interposer.graph().Destroy(pack);
}

TEST(GraphOwned, ThePlanOfALaterPlaceInTheListIsInIt) {
  Shared setting;
  const auto plan = setting.PlanOfRank(1);
  EXPECT_EQ(setting.Workspace(plan), 0u);
  setting.Learn(plan);
  setting.Ran(plan);
}

}  // namespace
}  // namespace ucudnn::interposer
