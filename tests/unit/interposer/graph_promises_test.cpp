// Tests that equal plans get the same promise: in another operation graph and in another process,
// whatever was measured in between.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "graph_setting.h"

namespace ucudnn::interposer {
namespace {

using test::Executions;
using test::GraphSetting;
using test::MemoryStore;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr size_t kLimit = 2 * GraphSetting::kPartBytes;

// Returns the setting's operation graph with another name for a tensor.
std::string OtherGraph(const GraphSetting& setting) {
  std::string json = setting.Json();
  for (size_t at; (at = json.find("\"119\"")) != std::string::npos;) json.replace(at, 5, "\"118\"");
  return json;
}

// Stores a time of pieces that are faster and need twice the workspace of the earlier ones.
void MeasureMore(GraphSetting& setting) { setting.Measured("graph:38", 8, 0.1, kLimit); }

TEST(GraphPromises, WithoutAPromiseWhatIsMeasuredDecides) {
  MemoryStore store;
  GraphSetting first(GraphSetting::Limited(kLimit), {}, &store);
  EXPECT_EQ(first.Workspace(first.Plan()), GraphSetting::kPartBytes);
  ASSERT_THAT(store.promises, SizeIs(1));
  EXPECT_EQ(store.promises[0].engine, "graph:38");
  EXPECT_EQ(store.promises[0].undivided, "graph:0");
  EXPECT_EQ(store.promises[0].limit_bytes, kLimit);
  EXPECT_EQ(store.promises[0].workspace_bytes, GraphSetting::kPartBytes);
  EXPECT_FALSE(store.promises[0].any_engine);
  MeasureMore(first);
  store.promises.clear();
  GraphSetting next(GraphSetting::Limited(kLimit), {}, &store);
  EXPECT_EQ(next.Workspace(next.Plan()), kLimit);
}

TEST(GraphPromises, TheNextProcessStaysInside) {
  MemoryStore store;
  {
    GraphSetting first(GraphSetting::Limited(kLimit), {}, &store);
    EXPECT_EQ(first.Workspace(first.Plan()), GraphSetting::kPartBytes);
    MeasureMore(first);
  }
  GraphSetting next(GraphSetting::Limited(kLimit), {}, &store);
  const auto plan = next.Plan(nullptr, OtherGraph(next));
  EXPECT_EQ(next.Workspace(plan), GraphSetting::kPartBytes);
  EXPECT_EQ(next.Workspace(next.Plan()), GraphSetting::kPartBytes);
  next.Execute(next.Plan());
  EXPECT_THAT(Executions().calls, SizeIs(4));
  EXPECT_THAT(next.ReportText(), HasSubstr("\"fallbacks\": []"));
}

TEST(GraphPromises, AnotherLimitIsAnotherPromise) {
  MemoryStore store;
  GraphSetting first(GraphSetting::Limited(kLimit), {}, &store);
  first.Plan();
  MeasureMore(first);
  GraphSetting next(GraphSetting::Limited(kLimit + 1), {}, &store);
  EXPECT_EQ(next.Workspace(next.Plan()), kLimit);
  EXPECT_THAT(store.promises, SizeIs(2));
}

TEST(GraphPromises, WhatCannotBeReadIsDecidedAnew) {
  MemoryStore store;
  GraphSetting first(GraphSetting::Limited(kLimit), {}, &store);
  first.Plan();
  const std::vector<planning::EnginePromise> kept = store.promises;
  GraphSetting next(GraphSetting::Limited(kLimit), {}, &store);
  store.promises_fail = true;
  EXPECT_EQ(next.Workspace(next.Plan()), GraphSetting::kPartBytes);
  EXPECT_EQ(store.promises, kept);
}

TEST(GraphPromises, TheFirstToKeepOneWins) {
  MemoryStore store;
  GraphSetting first(GraphSetting::Limited(kLimit), {}, &store);
  first.Plan();
  MeasureMore(first);
  // At first `next` cannot read the promise of `first`. It finds this promise only when it is about
  // to store its own, as if another process had been faster.
  GraphSetting next(GraphSetting::Limited(kLimit), {}, &store);
  store.promises_fail = true;
  const auto plan = next.Plan();
  EXPECT_EQ(next.Workspace(plan), GraphSetting::kPartBytes);
  next.Execute(plan);
  EXPECT_THAT(Executions().calls, SizeIs(4));
}

// This process builds pieces before it finds that another process has promised less workspace. The
// pieces do not fit the smaller promise.
TEST(GraphPromises, NothingIsLeftOfThePlanWhosePromiseWasLost) {
  MemoryStore store;
  {
    GraphSetting other(GraphSetting::Limited(kLimit), {}, &store);
    other.Plan();
  }
  ASSERT_THAT(store.promises, SizeIs(1));
  store.promises[0].workspace_bytes = 0;
  GraphSetting setting(GraphSetting::Limited(kLimit), {}, &store);
  store.promises_fail = true;
  const auto plan = setting.Plan();
  EXPECT_EQ(setting.Workspace(plan), 0u);
  for (int call = 0; call < 2; ++call) setting.Execute(plan);
  ASSERT_THAT(Executions().calls, SizeIs(2)) << "one a call";
  for (const auto& call : Executions().calls) EXPECT_EQ(call.engine, 0);
  const auto report = nlohmann::json::parse(setting.interposer.reporter().Text());
  ASSERT_THAT(report["kernels"], SizeIs(1));
  const auto& kernel = report["kernels"][0];
  EXPECT_EQ(kernel["plan"].size(), 1u);
  EXPECT_EQ(kernel["plan"][0]["count"], 1);
  EXPECT_EQ(kernel["calls"], 2);
  EXPECT_EQ(kernel["undivided_calls"], 0);
}

TEST(GraphPromises, AStoreThatCannotBeWrittenLeavesItToTheProcess) {
  GraphSetting setting(GraphSetting::Limited(kLimit), {});
  setting.store.write_fails = true;
  EXPECT_EQ(setting.Workspace(setting.Plan()), GraphSetting::kPartBytes);
  setting.store.write_fails = false;
  MeasureMore(setting);
  EXPECT_EQ(setting.Workspace(setting.Plan(nullptr, OtherGraph(setting))),
            GraphSetting::kPartBytes);
}

TEST(GraphPromises, AChangedEngineIsPromisedAgain) {
  // No division fits, so the first plan of a list runs another engine. A plan that is built again
  // from its engine and knobs is in no list, but gets the same promise.
  constexpr size_t kTight = GraphSetting::kPartBytes - 1;
  MemoryStore store;
  {
    GraphSetting other(GraphSetting::Limited(kTight), {}, &store);
    EXPECT_EQ(other.Workspace(other.PlanOfRank(1)), GraphSetting::kNeed);
    EXPECT_THAT(store.promises, SizeIs(0));
  }
  {
    GraphSetting first(GraphSetting::Limited(kTight), {}, &store);
    EXPECT_EQ(first.Workspace(first.PlanOfRank(0)), 0u);
    EXPECT_EQ(first.Workspace(first.Plan(nullptr, OtherGraph(first))), 0u);
    ASSERT_THAT(store.promises, SizeIs(1));
    EXPECT_TRUE(store.promises[0].any_engine);
  }
  GraphSetting next(GraphSetting::Limited(kTight), {}, &store);
  const auto plan = next.Plan();
  EXPECT_EQ(next.Workspace(plan), 0u);
  next.Execute(plan);
  test::ExpectSubstitute();
}

TEST(GraphPromises, PlansTimedAgainstEachOtherKeepTheirEngine) {
  // The promise was given when the plan had rank 1 in its list. So no faster engine replaces the
  // plan later, when it has rank 0.
  const GraphSetting::With with = {.other_ms = 0.5};
  MemoryStore store;
  {
    GraphSetting timed(GraphSetting::Limited(kLimit), with, &store);
    timed.PlanOfRank(1);
  }
  GraphSetting next(GraphSetting::Limited(kLimit), with, &store);
  const auto plan = next.PlanOfRank(0);
  EXPECT_EQ(next.Workspace(plan), GraphSetting::kPartBytes);
  next.Execute(plan);
  EXPECT_THAT(Executions().calls, SizeIs(4));
}

TEST(GraphPromises, PiecesThatNoLongerFitLeaveTheUndividedEngine) {
  MemoryStore store;
  {
    GraphSetting first(GraphSetting::Limited(kLimit), {}, &store);
    first.Plan();
  }
  // Of all measurements, the store has only those of the undivided plan and of a piece that is too
  // large.
  MemoryStore poorer;
  poorer.promises = store.promises;
  GraphSetting next(GraphSetting::Limited(kLimit), {.measured = false}, &poorer);
  next.Measured("graph:38", GraphSetting::kImages, 100, GraphSetting::kNeed);
  MeasureMore(next);
  const auto plan = next.Plan();
  EXPECT_EQ(next.Workspace(plan), GraphSetting::kPartBytes);
  next.Execute(plan);
  test::ExpectSubstitute();
}

}  // namespace
}  // namespace ucudnn::interposer
