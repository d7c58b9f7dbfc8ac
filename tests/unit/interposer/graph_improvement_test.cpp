// Tests execution plans that were decided before anything was measured. Once measurements are
// known, these plans run faster, within the promised workspace.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "graph_setting.h"
#include "tests/support/becomes.h"

namespace ucudnn::interposer {
namespace {

using test::Executions;
using test::GraphSetting;
using test::Unmeasured;

// Stores the measurement of the undivided plan last. A process that measures nothing stops asking
// the store once the store has this measurement.
void Measure(GraphSetting& setting) {
  setting.Measured("graph:38", GraphSetting::kPart, 1, GraphSetting::kPartBytes);
  setting.Measured("graph:38", GraphSetting::kImages, 100, GraphSetting::kNeed);
}
size_t PiecesOf(GraphSetting& setting, cudnnBackendDescriptor_t plan) {
  Executions() = {};
  EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
  return Executions().calls.size();
}

TEST(GraphImprovement, WhatOthersMeasuredIsUsedLater) {
  GraphSetting setting(test::PlannedSetting::NotMeasuring(), Unmeasured());
  const auto plan = setting.Plan();
  EXPECT_EQ(PiecesOf(setting, plan), 1u);
  Measure(setting);
  EXPECT_EQ(PiecesOf(setting, plan), 4u);
  EXPECT_EQ(setting.Workspace(plan), GraphSetting::kNeed);
  // The record of the improved plan also counts the call before the improvement.
  EXPECT_THAT(setting.ReportText(), ::testing::HasSubstr("\"calls\": 2"));
  // An equal plan that is made now runs the same pieces.
  EXPECT_EQ(PiecesOf(setting, setting.Plan()), 4u);
}

TEST(GraphImprovement, ItStaysInsideThePromise) {
  // When nothing was known, the plan was promised the undivided need of engine 0, which is 0 bytes.
  GraphSetting setting(GraphSetting::Limited(GraphSetting::kPartBytes), Unmeasured());
  const auto plan = setting.PlanOfRank(0);
  ASSERT_EQ(setting.Workspace(plan), 0u);
  Measure(setting);
  for (int call = 0; call < 5; ++call) {
    EXPECT_EQ(PiecesOf(setting, plan), 1u);
    EXPECT_EQ(Executions().calls[0].engine, 0);
  }
  EXPECT_EQ(setting.Workspace(plan), 0u);
}

TEST(GraphImprovement, APromiseOfAnEarlierProcessLeavesRoomForPieces) {
  GraphSetting setting(GraphSetting::Limited(GraphSetting::kPartBytes), Unmeasured());
  setting.store.promises = {{setting.Problem(), test::PlatformOf(setting.functions), "graph:38",
                             GraphSetting::kPartBytes, GraphSetting::kPartBytes, "graph:0", false}};
  const auto plan = setting.Plan();
  ASSERT_EQ(setting.Workspace(plan), GraphSetting::kPartBytes);
  EXPECT_EQ(PiecesOf(setting, plan), 1u);
  Measure(setting);
  EXPECT_EQ(PiecesOf(setting, plan), 4u);
  EXPECT_EQ(setting.Workspace(plan), GraphSetting::kPartBytes);
}

// By its measurements the failed plan is the fastest, but measurements do not prove that it works.
TEST(GraphImprovement, APlanThatFailedIsNotTakenAgain) {
  GraphSetting setting(test::PlannedSetting::WithoutTime(), {});
  const auto plan = setting.Plan();
  ASSERT_EQ(PiecesOf(setting, plan), 4u);
  Executions() = {};
  Executions().fail_at = 1;
  EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
  for (int call = 0; call < 100; ++call) EXPECT_EQ(PiecesOf(setting, plan), 1u) << call;
  EXPECT_EQ(PiecesOf(setting, setting.Plan()), 1u) << "an equal plan";
}

TEST(GraphImprovement, APlanThatRunsStaysUntilABetterOneIsCompared) {
  GraphSetting setting(test::PlannedSetting::WithoutTime(), {});
  const auto plan = setting.Plan();
  ASSERT_EQ(PiecesOf(setting, plan), 4u);
  const MicroConfiguration faster = {"graph:38", 8, 0.1, GraphSetting::kPartBytes, true};
  test::StoreRows(setting.store, setting.functions, setting.Problem(), {{faster, 5, false}});
  for (int call = 0; call < 40; ++call) EXPECT_EQ(PiecesOf(setting, plan), 4u) << call;
}

TEST(GraphImprovement, NothingIsAskedWhereAllIsKnown) {
  GraphSetting setting;
  const auto plan = setting.Plan();
  const int reads = setting.store.reads;
  for (int call = 0; call < 10; ++call) PiecesOf(setting, plan);
  EXPECT_EQ(setting.store.reads, reads);
}

TEST(GraphImprovement, TheStoreIsAskedMoreAndMoreRarely) {
  GraphSetting setting(test::PlannedSetting::NotMeasuring(), Unmeasured());
  const auto plan = setting.Plan();
  const int reads = setting.store.reads;
  for (int call = 0; call < 100; ++call) PiecesOf(setting, plan);
  EXPECT_GT(setting.store.reads, reads);
  EXPECT_LE(setting.store.reads, reads + 7);
}

TEST(GraphImprovement, ACaptureKeepsWhatThereIs) {
  GraphSetting setting(test::PlannedSetting::NotMeasuring(), Unmeasured());
  const auto plan = setting.Plan();
  PiecesOf(setting, plan);
  Measure(setting);
  test::HandleStream stream(setting.interposer, setting.handle);
  stream.Capture([&] { EXPECT_EQ(PiecesOf(setting, plan), 1u); });
  EXPECT_EQ(PiecesOf(setting, plan), 4u);
}

TEST(GraphImprovement, ThreadsThatRunThePlanMeanwhileAreNotDisturbed) {
  GraphSetting setting(test::PlannedSetting::NotMeasuring(), Unmeasured());
  const auto plan = setting.Plan();
  std::atomic<bool> start = false;
  std::atomic<long> executions = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      test::MakeContextCurrent();
      cudnnHandle_t handle = nullptr;
      EXPECT_EQ(setting.interposer.sessions().Create(&handle), CUDNN_STATUS_SUCCESS);
      while (!start) std::this_thread::yield();
      for (int call = 0; call < 300; ++call) {
        Executions() = {};
        const auto pack = setting.Pack();
        EXPECT_EQ(setting.interposer.graph().Execute(handle, plan, pack), CUDNN_STATUS_SUCCESS);
        setting.interposer.graph().Destroy(pack);
        const size_t pieces = Executions().calls.size();
        EXPECT_TRUE(pieces == 1 || pieces == 4) << pieces;
        ++executions;
      }
      setting.interposer.sessions().Destroy(handle);
    });
  }
  start = true;
  EXPECT_TRUE(test::Becomes([&] { return executions >= 50; }));
  Measure(setting);
  for (std::thread& thread : threads) thread.join();
  // A plan is decided anew at the latest when its calls have doubled. The threads made 1200 calls,
  // so 1200 more suffice.
  for (int call = 0; call < 1200; ++call) PiecesOf(setting, plan);
  EXPECT_EQ(PiecesOf(setting, plan), 4u);
}

}  // namespace
}  // namespace ucudnn::interposer
