// Tests the workspace limit and the determinism that a user demands of every plan, and which engine
// replaces a plan that needs more than the limit.
#include <gmock/gmock.h>

#include "graph_setting.h"

namespace ucudnn::interposer {
namespace {

using test::Executions;
using test::GraphSetting;
using test::MemoryStore;
using test::Unmeasured;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr size_t kFive = 64 * GraphSetting::kImages;  // the workspace that engine 5 needs

// Returns plans in the order of the heuristics: two that need too much, one that fits and has a
// knob, and one that needs no workspace.
std::vector<std::string> Listed(const GraphSetting& setting) {
  return {setting.Json(38), setting.Json(67), setting.Json(5, "\"CUDNN_KNOB_TYPE_TILE_SIZE\":1"),
          setting.Json(0)};
}

const GraphSetting::With kOneUnmeasured = {.images = 1, .other = false, .measured = false};
// The store has a time of engine 0 only: 50 ms.
const GraphSetting::With kOtherMeasured = {.measured = false};

// Executes the plan, expects one execution and returns its engine.
int64_t EngineRun(GraphSetting& setting, cudnnBackendDescriptor_t plan) {
  Executions().calls.clear();
  EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
  EXPECT_THAT(Executions().calls, SizeIs(1));
  return Executions().calls.empty() ? -1 : Executions().calls[0].engine;
}

TEST(GraphLimits, ASingleImageIsKeptUnderTheLimitByAnotherEngine) {
  for (const bool strict : {false, true}) {
    GraphSetting setting(GraphSetting::Limited(512, strict), kOneUnmeasured);
    const auto plan = setting.PlanOfRank(0);
    EXPECT_EQ(setting.Workspace(plan), 0u);
    EXPECT_EQ(EngineRun(setting, plan), 0);
    EXPECT_THAT(setting.ReportText(), HasSubstr("\"fallbacks\": []"));
    EXPECT_THAT(setting.ReportText(), HasSubstr("\"limit_bytes\": 512"));
  }
}

TEST(GraphLimits, ASingleImageThatNothingBringsUnderTheLimitSaysSo) {
  for (const bool strict : {false, true}) {
    GraphSetting setting(GraphSetting::Limited(512, strict), kOneUnmeasured);
    cudnnStatus_t finalized = CUDNN_STATUS_INTERNAL_ERROR;
    const auto plan = setting.Plan(&finalized);  // not from a heuristics list
    EXPECT_EQ(finalized, strict ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS);
    EXPECT_THAT(setting.ReportText(), HasSubstr("cannot be brought under the workspace limit"));
    if (!strict) {
      EXPECT_EQ(setting.Workspace(plan), 1024u);
    }
  }
}

TEST(GraphLimits, WhatTheHeuristicsListNextTakesThePlace) {
  GraphSetting setting(GraphSetting::Limited(kFive), Unmeasured());
  const auto plan = setting.PlanOfRank(0, Listed(setting));
  EXPECT_EQ(setting.Workspace(plan), kFive);
  EXPECT_EQ(EngineRun(setting, plan), 5);
  EXPECT_THAT(setting.ReportText(), HasSubstr("graph:5[k2=1]"));
}

TEST(GraphLimits, WhatTheListHasAndDoesNotFitIsPassedOver) {
  GraphSetting setting(GraphSetting::Limited(kFive - 1), Unmeasured());
  const auto plan = setting.PlanOfRank(0, Listed(setting));
  EXPECT_EQ(setting.Workspace(plan), 0u);
  EXPECT_EQ(EngineRun(setting, plan), 0);
}

// The next process makes the plan without a heuristics list, and still builds the promised engine
// with its knobs.
TEST(GraphLimits, TheEngineOfAPromiseIsBuiltAgainInTheNextProcess) {
  MemoryStore store;
  {
    GraphSetting first(GraphSetting::Limited(kFive), Unmeasured(), &store);
    first.PlanOfRank(0, Listed(first));
    ASSERT_THAT(store.promises, SizeIs(1));
    EXPECT_EQ(store.promises[0].undivided, "graph:5[k2=1]");
  }
  GraphSetting next(GraphSetting::Limited(kFive), Unmeasured(), &store);
  const auto plan = next.Plan();
  EXPECT_EQ(next.Workspace(plan), kFive);
  EXPECT_EQ(EngineRun(next, plan), 5);
  EXPECT_THAT(next.ReportText(), HasSubstr("\"fallbacks\": []"));
}

TEST(GraphLimits, OfTheListTheFastestMeasuredTakesThePlace) {
  for (const double five_ms : {10.0, 90.0}) {
    GraphSetting setting(GraphSetting::Limited(kFive), kOtherMeasured);
    setting.Measured("graph:5[k2=1]", GraphSetting::kImages, five_ms, kFive);
    const auto plan = setting.PlanOfRank(0, Listed(setting));
    EXPECT_EQ(EngineRun(setting, plan), five_ms < 50 ? 5 : 0);
  }
}

// Engine 5 was not measured. The heuristics list it before engine 0, so the measured time of engine
// 0 does not rule engine 5 out.
TEST(GraphLimits, WhatIsListedFirstIsTakenWhereItWasNotMeasured) {
  GraphSetting setting(GraphSetting::Limited(kFive), kOtherMeasured);
  EXPECT_EQ(EngineRun(setting, setting.PlanOfRank(0, Listed(setting))), 5);
}

TEST(GraphLimits, OfStoredEnginesTheFastestTakesThePlace) {
  GraphSetting setting(GraphSetting::Limited(kFive), kOtherMeasured);
  setting.Measured("graph:28", GraphSetting::kImages, 10, 0);
  setting.Measured("graph:5", GraphSetting::kImages, 20, kFive);
  setting.Measured("graph:67", GraphSetting::kImages, 1, 2 * GraphSetting::kNeed);
  EXPECT_EQ(EngineRun(setting, setting.PlanOfRank(0)), 28);
}

TEST(GraphLimits, AnotherLimitHoldsForPlansMadeFromThenOn) {
  GraphSetting setting(GraphSetting::Limited(GraphSetting::kPartBytes), {});
  const auto before = setting.Plan();
  ASSERT_EQ(setting.Workspace(before), GraphSetting::kPartBytes);
  setting.interposer.limit().Set(kNoLimit);
  const auto free = setting.Plan();
  EXPECT_EQ(setting.Workspace(free), GraphSetting::kNeed);
  EXPECT_EQ(setting.Workspace(before), GraphSetting::kPartBytes);
  setting.interposer.limit().Set(0);
  EXPECT_EQ(setting.Workspace(setting.PlanOfRank(0)), 0u);
  EXPECT_EQ(setting.Workspace(free), GraphSetting::kNeed);
  EXPECT_EQ(setting.Workspace(before), GraphSetting::kPartBytes);
  // The first limit is set again, and its promise holds again.
  setting.interposer.limit().Set(GraphSetting::kPartBytes);
  EXPECT_EQ(setting.Workspace(setting.Plan()), GraphSetting::kPartBytes);
}

std::string OfAnotherSchema(const GraphSetting& setting) {
  std::string json = setting.Json();
  return json.replace(json.find("\"schemaVersion\":4"), 17, "\"schemaVersion\":9");
}

Options Deterministic() {
  Options options = test::PlannedSetting::NotMeasuring();
  options.deterministic = true;
  return options;
}

TEST(GraphLimits, OnlyDeterministicPlansAreMadeWhereTheUserDemandsIt) {
  for (const bool nondeterministic : {false, true}) {
    const cudnnStatus_t expected =
        nondeterministic ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
    for (const int images : {GraphSetting::kImages, 1}) {
      for (const bool unfamiliar : {false, true}) {
        SCOPED_TRACE(std::to_string(images) + (unfamiliar ? " unfamiliar" : ""));
        GraphSetting setting(Deterministic(), {.images = images});
        Executions().nondeterministic = nondeterministic ? 38 : -1;
        cudnnStatus_t finalized = CUDNN_STATUS_INTERNAL_ERROR;
        // The second plan equals the first, and finalizing it has the same result.
        for (int i = 0; i < 2; ++i) {
          setting.Plan(&finalized, unfamiliar ? OfAnotherSchema(setting) : "");
          EXPECT_EQ(finalized, expected);
        }
        EXPECT_EQ(setting.ReportText().find("not deterministic") != std::string::npos,
                  nondeterministic);
      }
    }
  }
}

TEST(GraphLimits, WithoutThatDemandEveryPlanIsMade) {
  GraphSetting setting(test::PlannedSetting::NotMeasuring(), {});
  Executions().nondeterministic = 38;
  for (const std::string& json : {setting.Json(), OfAnotherSchema(setting)}) {
    cudnnStatus_t finalized = CUDNN_STATUS_INTERNAL_ERROR;
    const auto plan = setting.Plan(&finalized, json);
    EXPECT_EQ(finalized, CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
    ASSERT_FALSE(Executions().calls.empty());
    EXPECT_EQ(Executions().calls.back().engine, 38);
  }
}

TEST(GraphLimits, ADeterministicPlanIsReplacedByNoOther) {
  GraphSetting setting(GraphSetting::Limited(kFive), Unmeasured());
  Executions().nondeterministic = 5;
  EXPECT_EQ(EngineRun(setting, setting.PlanOfRank(0, Listed(setting))), 0);
}

TEST(GraphLimits, UnfamiliarPlansAreForwardedAndReported) {
  for (const bool limited : {false, true}) {
    for (const bool strict : {false, true}) {
      SCOPED_TRACE(std::string(limited ? "limited" : "") + (strict ? " strict" : ""));
      Options options = test::PlannedSetting::NotMeasuring();
      if (limited) options.workspace_limit = GraphSetting::kPartBytes;
      options.strict_limit = strict;
      GraphSetting setting(options, {});
      cudnnStatus_t finalized = CUDNN_STATUS_INTERNAL_ERROR;
      const auto plan = setting.Plan(&finalized, OfAnotherSchema(setting));
      EXPECT_EQ(finalized, limited && strict ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS);
      EXPECT_THAT(setting.ReportText(), HasSubstr("left alone: its JSON is of an unknown schema"));
      EXPECT_EQ(setting.ReportText().find("cannot be brought under") != std::string::npos, limited);
      if (limited && strict) continue;
      EXPECT_EQ(setting.Workspace(plan), GraphSetting::kNeed);
      EXPECT_EQ(EngineRun(setting, plan), 38);
    }
  }
}

struct Shapes {
  int64_t images = GraphSetting::kImages;
  bool dynamic = false, ragged = false;
};
// Makes the operation graph of a forward convolution and a plan of engine 38 for it, as an
// application does.
cudnnBackendDescriptor_t PlanOf(GraphSetting& setting, const Shapes& shapes,
                                cudnnStatus_t& finalized) {
  GraphPlans& graph = setting.interposer.graph();
  const auto make = [&](cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    EXPECT_EQ(graph.Create(type, &made), CUDNN_STATUS_SUCCESS);
    return made;
  };
  const auto set = [&](cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                       cudnnBackendDescriptor_t part) {
    graph.Set(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
  };
  const auto x = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const int64_t dims[] = {shapes.images, 4, 8, 8};
  graph.Set(x, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
  if (shapes.ragged) set(x, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, x);
  const auto convolution = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  set(convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  const auto operations = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(operations, CUDNN_ATTR_OPERATIONGRAPH_OPS, convolution);
  if (shapes.dynamic) {
    graph.Set(operations, CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, CUDNN_TYPE_BOOLEAN, 1,
              &shapes.dynamic);
  }
  graph.Set(operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &setting.handle);
  const auto engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  set(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, operations);
  const auto configuration = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  set(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  const auto plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  const std::string json = setting.Json();
  graph.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
            static_cast<int64_t>(json.size()), json.data());
  finalized = graph.Finalize(plan);
  return plan;
}

TEST(GraphLimits, DynamicAndRaggedShapesAreForwardedAndReported) {
  for (const Shapes& shapes :
       {Shapes{GraphSetting::kImages, true, false}, Shapes{GraphSetting::kImages, false, true}}) {
    for (const bool strict : {false, true}) {
      GraphSetting setting(GraphSetting::Limited(GraphSetting::kPartBytes, strict), {});
      cudnnStatus_t finalized = CUDNN_STATUS_INTERNAL_ERROR;
      const auto plan = PlanOf(setting, shapes, finalized);
      EXPECT_EQ(finalized, strict ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS);
      EXPECT_THAT(setting.ReportText(),
                  HasSubstr("left alone: a convolution of dynamic or ragged"));
      EXPECT_THAT(setting.ReportText(), HasSubstr("cannot be brought under the workspace limit"));
      if (strict) continue;
      EXPECT_EQ(setting.Workspace(plan), GraphSetting::kNeed);
      EXPECT_EQ(EngineRun(setting, plan), 38);
    }
    GraphSetting setting(Deterministic(), {});
    Executions().nondeterministic = 38;
    cudnnStatus_t finalized = CUDNN_STATUS_INTERNAL_ERROR;
    PlanOf(setting, shapes, finalized);
    EXPECT_EQ(finalized, CUDNN_STATUS_NOT_SUPPORTED);
  }
}

TEST(GraphLimits, SingleImagesAreRecordedWhereTheUserReadsOfEveryKernel) {
  const Shapes shapes{1, false, false};
  for (const char* const how : {"", "observed", "reported"}) {
    SCOPED_TRACE(how);
    Options options = test::PlannedSetting::NotMeasuring();
    if (*how == 'o') options.mode = Mode::kObserve;
    if (*how == 'r') options.report = ::testing::TempDir() + "graph_limits_report.json";
    GraphSetting setting(options, {.images = 1});
    cudnnStatus_t finalized = CUDNN_STATUS_INTERNAL_ERROR;
    const auto plan = PlanOf(setting, shapes, finalized);
    EXPECT_EQ(finalized, CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(setting.Workspace(plan), 1024u);
    EXPECT_EQ(EngineRun(setting, plan), 38);
    EXPECT_EQ(setting.ReportText().find("\"calls\": 1") != std::string::npos, *how != '\0');
    EXPECT_THAT(setting.ReportText(), HasSubstr("\"fallbacks\": []"));
  }
}

TEST(GraphLimits, SingleImagesAreDeterministicWhereTheUserDemandsIt) {
  GraphSetting setting(Deterministic(), {.images = 1});
  Executions().nondeterministic = 38;
  cudnnStatus_t finalized = CUDNN_STATUS_INTERNAL_ERROR;
  PlanOf(setting, {1, false, false}, finalized);
  EXPECT_EQ(finalized, CUDNN_STATUS_NOT_SUPPORTED);
}

// Attention and other graphs without a convolution are not in the report's fallbacks.
TEST(GraphLimits, PlansWithoutAConvolutionAreNotSpokenOf) {
  Options options = GraphSetting::Limited(GraphSetting::kPartBytes, true);
  options.deterministic = true;
  GraphSetting setting(options, {});
  std::string json = setting.Json();
  const std::string convolution = "OPERATION_CONVOLUTION_FORWARD";
  json.replace(json.find(convolution), convolution.size(), "OPERATION_MATMUL");
  cudnnStatus_t finalized = CUDNN_STATUS_INTERNAL_ERROR;
  const auto plan = setting.Plan(&finalized, json);
  EXPECT_EQ(finalized, CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(setting.Workspace(plan), GraphSetting::kNeed);
  EXPECT_THAT(setting.ReportText(), HasSubstr("\"fallbacks\": []"));
  EXPECT_THAT(setting.ReportText(), Not(HasSubstr("\"api\": \"graph\"")));
}

}  // namespace
}  // namespace ucudnn::interposer
