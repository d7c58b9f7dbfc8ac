// Tests execution plans that follow a workspace plan, on the stand-in's real arithmetic. Divided
// into the file's micro-batches, a plan computes the same bits as undivided, in less workspace.
#include <gmock/gmock.h>

#include <optional>
#include <string>

#include "convolution/partial_sums.h"
#include "graph_program.h"
#include "workspace_plan_file.h"

namespace ucudnn::interposer {
namespace {

using test::Following;
using test::Totalled;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Ne;
using ::testing::SizeIs;

struct PlanCase {
  const char* name;
  Operation operation;
  bool fused = false;
  DataType type = DataType::kFloat;
};

// An engine, and the workspace that it needs according to cuDNN.
struct Pieces {
  std::string engine;
  size_t bytes = 0;        // for one piece of kPart images, with its partial sum
  size_t whole_bytes = 0;  // for all images
};

std::optional<Pieces> PiecesOf(const PlanCase& which, int engine) {
  const ConvolutionProblem problem = Problem(which.operation, which.type);
  Program program{Options()};
  const test::Graph whole(problem, Fused(which.fused), program.real, {program.handle});
  const test::Graph piece(WithBatch(problem, kPart), Fused(which.fused), program.real,
                          {program.handle});
  const auto plan = whole.Plan(engine), of_piece = piece.Plan(engine);
  if (!plan || !of_piece) return std::nullopt;
  return Pieces{cudnn::ReadTemplate(program.real, plan->get())->convolution.engine.Text(),
                *cudnn::PlanWorkspace(program.real, of_piece->get()) +
                    (SumsPartials(problem) ? PartialSumBytes(problem) : 0),
                *cudnn::PlanWorkspace(program.real, plan->get())};
}

nlohmann::json WorkspacePlanFile(const PlanCase& which, const std::string& engine, size_t bytes,
                                 const char* api = "graph") {
  return test::WorkspacePlanFile(
      test::WorkspacePlanEntry(Problem(which.operation, which.type), {api, engine, kPart, bytes}));
}

// A program with one plan. If `compared`, the store says that the plan's pieces were compared.
class Follower : public OnePlan {
 public:
  Follower(const PlanCase& which, const nlohmann::json& file, bool compared = true,
           decltype(cudnn::Functions::cudnnBackendExecute) execute = nullptr)
      : OnePlan(Problem(which.operation, which.type), which.fused, Following(file), execute) {
    if (compared) Compared(kEngine);
    MakePlans();
  }

  void Compared(int engine) {
    PartsMeasured(engine, 1000);  // too slow to be chosen, so only the file divides the plan
    SumMeasured(engine, 1);
  }

  void ExpectRight() { OnePlan::ExpectRight(2); }
  // Returns the report on the kernel that was called.
  nlohmann::json Kernel() {
    const nlohmann::json report = program_.Report();
    nlohmann::json called;
    for (const auto& kernel : report["kernels"]) {
      if (kernel["calls"] > 0) called = kernel;
    }
    return called;
  }
  void ExpectDivided(const std::string& engine) {
    const nlohmann::json kernel = Kernel();
    ASSERT_EQ(kernel["plan"].size(), 1u) << kernel.dump(1);
    EXPECT_EQ(kernel["plan"][0]["engine"], engine);
    EXPECT_EQ(kernel["plan"][0]["micro_batch"], kPart);
    EXPECT_EQ(kernel["plan"][0]["count"], problem_.n / kPart);
    EXPECT_THAT(kernel["reason"], HasSubstr("as the workspace plan says"));
    EXPECT_EQ(program_.interposer.kernels().measured(), 0);
    EXPECT_EQ(Fallbacks(), "[]");
  }
};

class GraphWorkspacePlan : public ::testing::TestWithParam<PlanCase> {};

TEST_P(GraphWorkspacePlan, IsFollowedInItsWorkspaceAndNothingIsMeasured) {
  const Pieces pieces = *PiecesOf(GetParam(), kEngine);
  ASSERT_LE(pieces.bytes, pieces.whole_bytes);
  Follower follower(GetParam(), WorkspacePlanFile(GetParam(), pieces.engine, pieces.bytes));
  EXPECT_GE(follower.ToldBytes(), pieces.bytes);
  // Some engines need the same workspace for any mini-batch.
  if (pieces.bytes < pieces.whole_bytes) {
    EXPECT_LT(follower.ToldBytes(), pieces.whole_bytes);
  }
  follower.ExpectRight();
  follower.ExpectDivided(pieces.engine);
  EXPECT_EQ(follower.Kernel()["workspace_bytes"], follower.ToldBytes());
}

TEST_P(GraphWorkspacePlan, OfTheLegacyApiGivesItsMicroBatches) {
  const Pieces pieces = *PiecesOf(GetParam(), kEngine);
  for (const char* api : {"legacy", "graph"}) {
    const std::string engine = *api == 'l' ? "legacy:1" : "graph:99[k2=1]";
    Follower follower(GetParam(), WorkspacePlanFile(GetParam(), engine, 1, api));
    follower.ExpectRight();
    if (pieces.bytes == pieces.whole_bytes) {
      EXPECT_EQ(follower.Kernel()["plan"][0]["count"], 1);
      EXPECT_THAT(follower.Kernel()["reason"], HasSubstr("need no less workspace"));
      continue;
    }
    EXPECT_LT(follower.ToldBytes(), pieces.whole_bytes);
    follower.ExpectDivided(pieces.engine);
    EXPECT_THAT(follower.Kernel()["reason"], HasSubstr("with its own engine"));
  }
}

TEST_P(GraphWorkspacePlan, OfABudgetBringsTheWorkspaceFromTheFirstCallOn) {
  const Pieces pieces = *PiecesOf(GetParam(), kEngine);
  Follower follower(GetParam(), Totalled(WorkspacePlanFile(GetParam(), pieces.engine, pieces.bytes),
                                         pieces.bytes));
  EXPECT_EQ(follower.ToldBytes(), 0u);
  follower.ExpectRight();
  follower.ExpectDivided(pieces.engine);
  EXPECT_EQ(follower.Kernel()["owned_workspace_bytes"], pieces.bytes);
  EXPECT_EQ(follower.Kernel()["calls"], 2);
  const nlohmann::json total = follower.program().Report()["total_workspace"];
  EXPECT_EQ(total["total_bytes"], pieces.bytes);
  EXPECT_EQ(total["total_workspace_bytes"], pieces.bytes);
  EXPECT_EQ(total["divided"], true);
  EXPECT_EQ(total["solver"], nullptr) << "the file divided";
  EXPECT_EQ(follower.TheBudget().bytes(), pieces.bytes);
}

// A captured graph may run at any time, also while calls and earlier captured graphs run, so it
// needs a segment of its own.
TEST_P(GraphWorkspacePlan, OfABudgetGivesACaptureASegmentOfItsOwn) {
  const Pieces pieces = *PiecesOf(GetParam(), kEngine);
  Follower follower(GetParam(),
                    Totalled(WorkspacePlanFile(GetParam(), pieces.engine, pieces.bytes), kAmple));
  CaptureSetting setting(follower);
  const auto operands = follower.Memory();
  follower.Run(*operands);
  setting.ExpectReplaysBesideCalls();
  EXPECT_EQ(follower.TheBudget().bytes(), 2 * pieces.bytes) << "the file's and the capture's";
}

TEST_P(GraphWorkspacePlan, ThatTheLibraryContradictsIsNotFollowed) {
  const Pieces pieces = *PiecesOf(GetParam(), kEngine);
  Follower follower(GetParam(), WorkspacePlanFile(GetParam(), pieces.engine, pieces.bytes - 1));
  EXPECT_EQ(follower.ToldBytes(), pieces.whole_bytes);
  follower.ExpectRight();
  EXPECT_EQ(follower.Kernel()["plan"][0]["count"], 1);
  EXPECT_THAT(follower.Fallbacks(), HasSubstr("the workspace plan does not hold for it"));
  EXPECT_THAT(follower.Fallbacks(), HasSubstr("needs " + std::to_string(pieces.bytes)));
  EXPECT_EQ(follower.program().interposer.kernels().measured(), 0);
}

TEST_P(GraphWorkspacePlan, WhoseLimitIsTooLowForItsOwnEngineIsNotFollowed) {
  const Pieces pieces = *PiecesOf(GetParam(), kEngine);
  nlohmann::json file = WorkspacePlanFile(GetParam(), "legacy:1", 1, "legacy");
  file["limit_bytes"] = pieces.bytes - 1;
  Follower follower(GetParam(), file);
  follower.ExpectRight();
  EXPECT_EQ(follower.Kernel()["plan"][0]["count"], 1);
  EXPECT_THAT(follower.Fallbacks(), HasSubstr("the workspace plan does not hold for it"));
}

INSTANTIATE_TEST_SUITE_P(Graphs, GraphWorkspacePlan,
                         ::testing::Values(PlanCase{"forward", Operation::kForward},
                                           PlanCase{"fused", Operation::kForward, true},
                                           PlanCase{"backward_data", Operation::kBackwardData},
                                           PlanCase{"backward_filter", Operation::kBackwardFilter},
                                           PlanCase{"backward_filter_fp16",
                                                    Operation::kBackwardFilter, false,
                                                    DataType::kHalf}),
                         [](const auto& given) { return given.param.name; });

constexpr PlanCase kForward = {"forward", Operation::kForward};

// Only the first plan of a heuristics list may change its engine. If a program runs another plan of
// the list, the program chose that plan's engine.
TEST(GraphPlanFileOfAList, OnlyTheFirstPlanTakesTheFilesEngine) {
  const std::vector<std::string> list = [] {
    Program program{Options()};
    const test::Graph graph(Problem(Operation::kForward), {}, program.real, {program.handle});
    std::vector<std::string> engines;
    for (const auto& plan : graph.HeuristicPlans(CUDNN_HEUR_MODE_A, 16)) {
      engines.push_back(cudnn::ReadTemplate(program.real, plan.get())->convolution.engine.Text());
    }
    return engines;
  }();
  ASSERT_GE(list.size(), 2u);
  // Finds an engine that is not the first of the list and needs workspace.
  std::optional<Pieces> pieces;
  int engine = -1;
  for (const int candidate : {kEngine, 0, 2, 3, 4, 5, 6, 7}) {
    pieces = PiecesOf(kForward, candidate);
    engine = candidate;
    if (pieces && pieces->bytes > 0 && pieces->engine != list[0]) break;
  }
  ASSERT_TRUE(pieces && pieces->bytes > 0 && pieces->engine != list[0]);
  const nlohmann::json file =
      Totalled(WorkspacePlanFile(kForward, pieces->engine, pieces->bytes), kAmple);
  Follower follower(kForward, file);
  follower.Compared(engine);
  Program& program = follower.program();
  const auto plans = follower.hooked().HeuristicPlans(CUDNN_HEUR_MODE_A, 16);
  ASSERT_EQ(plans.size(), list.size());
  for (size_t at = 0; at < plans.size(); ++at) {
    Operands operands(Problem(Operation::kForward), {}, 0);
    EXPECT_EQ(operands.Execute(program.hooked, program.handle, plans[at].get()),
              CUDNN_STATUS_SUCCESS);
    EXPECT_TRUE(operands.GuardsAreIntact());
  }
  std::vector<std::string> as_said, own;
  const nlohmann::json report = program.Report();
  for (const auto& kernel : report["kernels"]) {
    if (kernel["calls"] == 0) continue;
    const std::string reason = kernel["reason"], engine_that_ran = kernel["plan"][0]["engine"];
    (reason.ends_with("as the workspace plan says") ? as_said : own).push_back(engine_that_ran);
  }
  EXPECT_THAT(as_said, ElementsAre(pieces->engine)) << report.dump(1);
  EXPECT_THAT(own, SizeIs(list.size() - 1));
  EXPECT_THAT(own, Each(Ne(pieces->engine))) << report.dump(1);
}

TEST(GraphPlanFileOfWrongPieces, IsComparedBeforeItRuns) {
  const Pieces pieces = *PiecesOf(kForward, kEngine);
  for (const bool total : {false, true}) {
    nlohmann::json file = WorkspacePlanFile(kForward, pieces.engine, pieces.bytes);
    if (total) file = Totalled(file, pieces.bytes);
    Follower follower(kForward, file, false, SkipPieces);
    follower.ExpectRight();
    EXPECT_EQ(follower.Kernel()["plan"][0]["count"], 1);
  }
}

// A plan that needs no workspace undivided would gain nothing from another engine's micro-batches.
TEST(GraphPlanFileOfNoUse, LeavesAPlanWholeThatNeedsNoLessInPieces) {
  int engine = -1;
  std::optional<Pieces> pieces;
  while (!pieces || pieces->whole_bytes > 0) {
    ASSERT_LT(++engine, kMostEngines);
    pieces = PiecesOf(kForward, engine);
  }
  Follower follower(kForward, WorkspacePlanFile(kForward, "legacy:1", kAmple, "legacy"));
  Program& program = follower.program();
  const auto plan = follower.hooked().Plan(engine);
  program.Run(program.hooked, Problem(Operation::kForward), plan->get(), {});
  EXPECT_EQ(follower.Kernel()["plan"][0]["count"], 1);
  EXPECT_THAT(follower.Kernel()["reason"], HasSubstr("need no less workspace"));
  EXPECT_EQ(follower.Fallbacks(), "[]");
}

}  // namespace
}  // namespace ucudnn::interposer
