// Tests execution plans of one image that exceed the limit, on the stand-in's real arithmetic.
// Tiles that run the plan's own engine compute the same as the plan, also inside captures and with
// fused operations. Faults of one kind of tile are found before a program is told of any tiles.
// Plans with too many elements for fast engines run fast engines in tiles.
#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <string>

#include "tests/support/cases.h"
#include "tiled_plan.h"
#include "workspace_plan_file.h"

namespace ucudnn::interposer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GraphTiles, ComputeWhatThePlanDoes) {
  for (const Operation operation : test::kOperations) {
    for (const bool fused : {false, true}) {
      if (fused && operation != Operation::kForward) continue;
      const ConvolutionProblem problem = Image(operation);
      SCOPED_TRACE(Describe(problem) + (fused ? " fused" : ""));
      const size_t limit = NeedOf(problem, Fused(fused)) / 3;
      TiledPlan plan(problem, Fused(fused), Measuring(limit));
      EXPECT_LE(plan.ToldBytes(), limit);
      plan.ExpectRight();
      plan.ExpectTiles();
    }
  }
}

// The memory for measuring is too small to compare the undivided plan, but large enough to compare
// its tiles.
TEST(GraphTiles, FitALimitWhereTheWholeCannotBeCompared) {
  struct Kernel {
    Operation operation;
    GraphOptions fused;
  };
  for (const auto& [operation, fused] : {Kernel{Operation::kForward},
                                         {Operation::kBackwardData},
                                         {Operation::kBackwardFilter},
                                         {Operation::kForward, Fused(true)},
                                         {Operation::kBackwardData, ReluGradient()}}) {
    const ConvolutionProblem problem = Image(operation);
    SCOPED_TRACE(Describe(problem));
    Options options = Measuring(NeedOf(problem, fused) / 3);
    // A residual and the gradient of a ReLU read an operand as large as the output.
    const size_t read = fused.residual || !fused.steps.empty() ? 1 : 0;
    options.tuning.memory_bytes = (5 + 2 * read) * cudnn::ImageBytes(problem) / 2;
    TiledPlan plan(problem, fused, options);
    plan.ExpectRight();
    plan.ExpectTiles();
  }
}

// The total workspace is a third of the plan's need, and the program is told a need of 0. The plan
// is the network's only kernel. Once the network is learned, the tiles run in ucudnn's workspace.
TEST(GraphTiles, RunWithinOneBudget) {
  for (const Operation operation : test::kOperations) {
    const ConvolutionProblem problem = Image(operation);
    SCOPED_TRACE(Describe(problem));
    Options options = WithoutLimit();
    options.total_workspace = NeedOf(problem) / 3;
    TiledPlan plan(problem, {}, options);
    EXPECT_EQ(plan.ToldBytes(), 0u);
    const auto memory = plan.Memory();
    for (size_t call = 0; call <= KernelSequence::kOfOneProblem; ++call) plan.Run(*memory);
    ASSERT_FALSE(plan.TheBudget().learning());
    plan.ExpectRight();
    plan.ExpectTiles();
    EXPECT_GT(plan.Kernel()["owned_workspace_bytes"].get<size_t>(), 0u);
    EXPECT_LE(plan.TheBudget().bytes(), *options.total_workspace);
  }
}

// Counts the plans of tiles that CountTiles finalized.
int& TilesFinalized() {
  static int finalized = 0;
  return finalized;
}
cudnnStatus_t CountTiles(cudnnBackendDescriptor_t descriptor) {
  const cudnnStatus_t status = test::StandInGraphs().cudnnBackendFinalize(descriptor);
  const auto read = cudnn::ReadTemplate(test::StandInGraphs(), descriptor);
  TilesFinalized() += read.ok() && read->convolution.problem.x[1] < 64;
  return status;
}

TEST(GraphTiles, AreNotBuiltAgainWhereADivisionLeavesThemAsTheyWere) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  Options options = WithoutLimit();
  options.total_workspace = NeedOf(problem) / 3;
  TiledPlan plan(problem, {}, options, nullptr, CountTiles);
  const auto memory = plan.Memory();
  for (size_t call = 0; call <= KernelSequence::kOfOneProblem; ++call) plan.Run(*memory);
  plan.ExpectRight();
  ASSERT_GT(plan.Pieces(), 1);
  EXPECT_GT(TilesFinalized(), 0);
  TilesFinalized() = 0;
  plan.TheBudget().Stop();  // increases epoch(), so decisions are made anew
  plan.ExpectRight();
  EXPECT_GT(plan.Pieces(), 1);
  EXPECT_EQ(TilesFinalized(), 0);
}

TEST(GraphTiles, RunInCaptures) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  TiledPlan plan(problem, {}, Measuring(NeedOf(problem) / 3));
  plan.ExpectRight();
  ASSERT_GE(plan.Pieces(), 4);
  CaptureSetting(plan).ExpectReplaysBesideCalls();
}

// A native graph of tiles computes the same result as the call, also in other memory after an
// update.
TEST(GraphTiles, BecomeNativeGraphs) {
  for (const Operation operation : test::kOperations) {
    const bool fused = operation == Operation::kForward;
    const ConvolutionProblem problem = Image(operation);
    SCOPED_TRACE(Describe(problem));
    TiledPlan plan(problem, Fused(fused), Measuring(NeedOf(problem, Fused(fused)) / 3));
    plan.program().under.cudnnBackendPopulateCudaGraph = &::cudnnBackendPopulateCudaGraph;
    plan.program().under.cudnnBackendUpdateCudaGraph = &::cudnnBackendUpdateCudaGraph;
    const auto first = plan.Memory(), second = plan.Memory();
    NativeGraphOf native(plan, *first);
    ASSERT_EQ(native.status(), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(native.Nodes(), static_cast<size_t>(plan.Pieces()));
    EXPECT_EQ(native.Nodes(), plan.Kernel()["graph_nodes"]);
    EXPECT_GT(plan.Pieces(), 1);
    int seed = 0;
    for (const auto& memory : {first.get(), second.get(), first.get()}) {
      if (seed > 0) {
        ASSERT_EQ(native.Update(plan, *memory), CUDNN_STATUS_SUCCESS);
      }
      memory->Fill(++seed);
      native.Launch();
      EXPECT_EQ(memory->Output(), plan.Undivided(seed));
      EXPECT_TRUE(memory->GuardsAreIntact());
    }
  }
}

// If a tile cannot become a native graph, the undivided plan becomes one. An update that fails at
// any tile returns its error.
TEST(GraphTiles, WhoseNativeGraphFailsAtAnyTileAreRightOrToldOf) {
  static int left = 0;  // the call that counts this down to 0 fails
  const ConvolutionProblem problem = Image(Operation::kForward);
  TiledPlan plan(problem, {}, Measuring(NeedOf(problem) / 3));
  cudnn::Functions& under = plan.program().under;
  const auto memory = plan.Memory();
  const int tiles = plan.Pieces();
  ASSERT_GT(tiles, 1);
  for (int kth = 1; kth <= tiles; ++kth) {
    SCOPED_TRACE("tile " + std::to_string(kth));
    memory->Fill(kth);
    left = kth;
    under.cudnnBackendPopulateCudaGraph = [](auto handle, auto descriptor, auto pack, auto graph) {
      return --left == 0 ? CUDNN_STATUS_EXECUTION_FAILED
                         : ::cudnnBackendPopulateCudaGraph(handle, descriptor, pack, graph);
    };
    const NativeGraphOf whole(plan, *memory);
    ASSERT_EQ(whole.status(), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(whole.Nodes(), 1u);
    whole.Launch();
    EXPECT_EQ(memory->Output(), plan.Undivided(kth));
    left = -1;
    NativeGraphOf native(plan, *memory);
    ASSERT_EQ(native.Nodes(), static_cast<size_t>(tiles));
    left = kth;
    under.cudnnBackendUpdateCudaGraph = [](auto handle, auto descriptor, auto pack, auto graph) {
      return --left == 0 ? CUDNN_STATUS_EXECUTION_FAILED
                         : ::cudnnBackendUpdateCudaGraph(handle, descriptor, pack, graph);
    };
    EXPECT_EQ(native.Update(plan, *memory), CUDNN_STATUS_EXECUTION_FAILED);
    memory->Fill(kth + tiles);
    EXPECT_EQ(native.Update(plan, *memory), CUDNN_STATUS_SUCCESS);
    native.Launch();
    EXPECT_EQ(memory->Output(), plan.Undivided(kth + tiles));
    EXPECT_TRUE(memory->GuardsAreIntact());
  }
}

TEST(GraphTiles, GainTimeWhereThePolicyLooksEverywhere) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  Options options = WithoutLimit();
  const auto kernels = [&] {
    return TiledPlan(problem, {}, options).program().Report()["kernels"].size();
  };
  EXPECT_EQ(kernels(), 0u) << "the plan is not even read";
  options.policy = BatchSizePolicy::kAll;
  const size_t need = NeedOf(problem);
  {
    TiledPlan plan(problem, {}, options);
    EXPECT_EQ(plan.ToldBytes(), need);
    plan.ExpectRight();
    EXPECT_THAT(plan.Reason(), HasSubstr("tiles"));
  }
  options.tiles = false;
  EXPECT_EQ(kernels(), 0u) << "nothing could change it";
}

// Delays tiles that are views of the whole image: their channel stride is the image's, 64 x 64.
// Does not delay the slightly larger copies of tiles (SlackTwin) on which engines are measured.
cudnnStatus_t ExecuteTilesInPlaceSlowly(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                        cudnnBackendDescriptor_t pack) {
  const auto read = cudnn::ReadTemplate(test::StandInGraphs(), plan);
  if (read.ok()) {
    const ConvolutionProblem& part = read->convolution.problem;
    if (part.x[1] < 64 && part.x_strides[1] == 64 * 64) usleep(5'000);
  }
  return ::cudnnBackendExecute(handle, plan, pack);
}

TEST(GraphTiles, DoNotRunWhereTheyAreSlowerInPlace) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  Options options = WithoutLimit();
  options.policy = BatchSizePolicy::kAll;
  test::MemoryStore store;
  std::string reason;
  {
    TiledPlan plan(problem, {}, options, ExecuteTilesInPlaceSlowly, nullptr, &store);
    plan.ExpectRight();
    reason = plan.Reason();
    EXPECT_THAT(reason, HasSubstr("; tiles are not faster in place: "));
    EXPECT_EQ(plan.Pieces(), 1);
    EXPECT_FALSE(plan.Kernel().contains("graph_nodes"));
    EXPECT_EQ(plan.program().Report()["fallbacks"], nlohmann::json::array());
  }
  // Another process reads from the store that tiles in the memory of the whole image are not
  // faster.
  TiledPlan plan(problem, {}, options, nullptr, nullptr, &store);
  EXPECT_EQ(plan.Reason(), reason);
  EXPECT_EQ(plan.Pieces(), 1);
}

// Returns a workspace plan that consists of the reported kernel.
nlohmann::json WorkspacePlanOf(const nlohmann::json& reported) {
  nlohmann::json kernel = {{"segment", nullptr}, {"order_after", nlohmann::json::array()}};
  for (const char* member : {"op", "problem", "api", "plan"}) kernel[member] = reported[member];
  return test::WorkspacePlanFile(kernel);
}

TEST(GraphTiles, AreFollowedFromAWorkspacePlan) {
  for (const Operation operation : test::kOperations) {
    const ConvolutionProblem problem = Image(operation);
    SCOPED_TRACE(Describe(problem));
    const size_t need = NeedOf(problem), limit = need / 3;
    Options options = Measuring(limit);
    const nlohmann::json reported = TiledPlan(problem, {}, options).Kernel();
    options.workspace_limit.reset();
    options.policy = BatchSizePolicy::kUndivided;  // only the file cuts the image
    for (const bool in_budget : {false, true}) {
      const nlohmann::json file = WorkspacePlanOf(reported);
      // With a total in the file, ucudnn provides the workspace.
      options.workspace_plan = test::Written(in_budget ? test::Totalled(file, limit) : file);
      TiledPlan plan(problem, {}, options);
      plan.ExpectRight();
      EXPECT_THAT(plan.Reason(), HasSubstr("tiles, as the workspace plan says"));
      EXPECT_EQ(plan.Kernel()["plan"].dump(), reported["plan"].dump());
      EXPECT_EQ(plan.program().Report()["measured"], 0);
      EXPECT_EQ(plan.program().Report()["fallbacks"], nlohmann::json::array());
      EXPECT_LE(plan.ToldBytes(), in_budget ? 0 : need);
    }
  }
}

TEST(GraphTiles, WhatWasPromisedIsPromisedWithoutThemToo) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  Options options = Measuring(NeedOf(problem) / 3);
  test::MemoryStore store;
  size_t told = 0;
  {
    TiledPlan plan(problem, {}, options, nullptr, nullptr, &store);
    told = plan.ToldBytes();
    ASSERT_GT(plan.Pieces(), 1);
  }
  options.tiles = false;
  TiledPlan plan(problem, {}, options, nullptr, nullptr, &store);
  EXPECT_EQ(plan.ToldBytes(), told);
  plan.ExpectRight();
  EXPECT_EQ(plan.Pieces(), 1);
}

// The second process uses the grids that the first process measured, and keeps its promise.
TEST(GraphTiles, AnotherProcessFindsThemInTheStore) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  const Options options = Measuring(NeedOf(problem) / 3);
  test::MemoryStore store;
  nlohmann::json known;
  {
    TiledPlan plan(problem, {}, options, nullptr, nullptr, &store);
    known = plan.Kernel()["plan"];
    ASSERT_EQ(known[0]["border"], "h-") << known;
    ASSERT_TRUE(known[0]["tile"].contains("h")) << known;
    ASSERT_GT(plan.program().Report()["measured"].get<long>(), 0);
  }
  TiledPlan plan(problem, {}, options, nullptr, nullptr, &store);
  EXPECT_EQ(plan.program().Report()["measured"].get<long>(), 0);
  EXPECT_EQ(plan.Kernel()["plan"], known);
  plan.ExpectRight();
}

// Returns whether the plan computes a tile at the lower edge.
bool IsLowerEdge(cudnnBackendDescriptor_t plan) {
  const auto read = cudnn::ReadTemplate(test::StandInGraphs(), plan);
  return read.ok() && read->convolution.problem.extra_pad[1] > 0;
}

// If an engine does not support one kind of tile, the plan stays undivided and the reason says so.
TEST(GraphTiles, AreNotOfferedWhereAnEdgeIsNotServed) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  const size_t need = NeedOf(problem);
  TiledPlan plan(problem, {}, Measuring(need / 3), nullptr, [](auto descriptor) {
    const cudnnStatus_t status = test::StandInGraphs().cudnnBackendFinalize(descriptor);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    return IsLowerEdge(descriptor) ? CUDNN_STATUS_NOT_SUPPORTED : status;
  });
  EXPECT_EQ(plan.ToldBytes(), need);
  plan.ExpectRight();
  EXPECT_THAT(plan.Reason(), HasSubstr("does not serve its tiles forward"));
}

// The channels of y lie so far apart that tiles must write packed copies of y. Such tiles cannot
// read a residual with the strides of y. The reported reason names the residual, and no tile is
// measured.
TEST(GraphTiles, AreNotMeasuredWhereTheyCannotReadTheResidual) {
  ConvolutionProblem problem = Image(Operation::kForward);
  problem.y_strides[1] = int64_t{1} << 28;
  problem.y_strides[0] = problem.k * problem.y_strides[1];
  const size_t need = NeedOf(problem, Fused(true));
  Options options = Measuring(need / 3);
  options.tuning.memory_bytes = size_t{64} << 20;  // too little for the whole image
  TiledPlan plan(problem, Fused(true), options);
  EXPECT_EQ(plan.ToldBytes(), need);
  EXPECT_THAT(plan.Reason(), HasSubstr("what is fused reads tensor 122, which is not packed with "
                                       "the output of forward 1x16x"));
  EXPECT_EQ(plan.program().Report()["measured"], 0);
}

// The library does not write tiles at one edge, so no grid passes the comparison.
TEST(GraphTiles, OfWhichOneKindIsWrongNeverRun) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  const size_t limit = NeedOf(problem) / 3;
  TiledPlan plan(problem, {}, Measuring(limit), [](auto handle, auto plan, auto pack) {
    return IsLowerEdge(plan) ? CUDNN_STATUS_SUCCESS : ::cudnnBackendExecute(handle, plan, pack);
  });
  plan.ExpectRight();
  EXPECT_THAT(plan.Reason(), Not(HasSubstr("tiles")));
  EXPECT_THAT(plan.program().Report()["fallbacks"].dump(), HasSubstr("a divided plan is wrong"));
}

// A library that behaves as cuDNN does for vast plans: only the implicit GEMM (engine 0) supports
// the undivided plan. This engine propagates NaNs strictly. `gemm_serves_tiles` says whether it
// supports tiles, too.
struct VastLibrary {
  int64_t whole_rows = 0;
  bool gemm_serves_tiles = false;
};
VastLibrary& TheVastLibrary() {
  static VastLibrary library;
  return library;
}

cudnnStatus_t FinalizeInVastLibrary(cudnnBackendDescriptor_t descriptor) {
  const cudnnStatus_t status = test::StandInGraphs().cudnnBackendFinalize(descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const auto read = cudnn::ReadTemplate(test::StandInGraphs(), descriptor);
  if (!read.ok()) return status;  // not a plan
  const bool gemm = read->convolution.engine.graph()->index == 0;
  const bool whole = read->convolution.problem.x[1] == TheVastLibrary().whole_rows;
  const bool serves = whole ? gemm : !gemm || TheVastLibrary().gemm_serves_tiles;
  return serves ? status : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t GetFromVastLibrary(cudnnBackendDescriptor_t const from,
                                 cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                 int64_t requested, int64_t* count, void* values) {
  const cudnn::Functions real = test::StandInGraphs();
  const cudnnStatus_t status =
      real.cudnnBackendGetAttribute(from, name, type, requested, count, values);
  if (status != CUDNN_STATUS_SUCCESS || name != CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) return status;
  int64_t index = -1, one = 0;
  real.cudnnBackendGetAttribute(from, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &one,
                                &index);
  if (index != 0 || values == nullptr || *count >= requested) return status;
  static_cast<cudnnBackendNumericalNote_t*>(values)[(*count)++] =
      CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
  return status;
}

// A plan of engine 0 that FinalizeInVastLibrary has finalized. The stored time of the undivided
// plan is far too long, so that tiles are faster on every machine.
class VastPlan : public OnePlan {
 public:
  VastPlan(const ConvolutionProblem& problem, const Options& options, bool fused = false,
           planning::MeasurementStore* shared = nullptr,
           decltype(cudnn::Functions::cudnnBackendExecute) execute = nullptr)
      : OnePlan(problem, fused, options, execute != nullptr ? execute : ExecuteWholesSlowly,
                shared) {
    TheVastLibrary().whole_rows = problem.x[1];
    PartsMeasured(0, 1e4, problem.n);
    program_.under.cudnnBackendFinalize = FinalizeInVastLibrary;
    program_.under.cudnnBackendGetAttribute = GetFromVastLibrary;
    // The whole image counts as vast, but its quarters do not.
    program_.interposer.rules().set_most_span(int64_t{problem.c} * problem.x[1] * problem.x[2] / 2);
    undivided_ = whole_.Plan(0);
    plan_ = hooked_.Plan(0);
    EXPECT_TRUE(plan_ && undivided_);
  }
  ~VastPlan() { TheVastLibrary() = {}; }
  void ExpectRight() { OnePlan::ExpectRight(2); }
  // Expects pieces, each of an engine whose name begins with `engine`.
  void ExpectTilesOf(const std::string& engine) {
    const nlohmann::json plan = Kernel()["plan"];
    EXPECT_TRUE(plan.size() > 1 || plan[0]["count"] > 1) << Kernel();
    for (const auto& run : plan) {
      EXPECT_TRUE(run["engine"].get<std::string>().starts_with(engine)) << Kernel();
    }
  }
  void ExpectWhole() {
    const nlohmann::json plan = Kernel()["plan"];
    EXPECT_TRUE(plan.size() == 1 && plan[0]["count"] == 1) << Kernel();
  }
  std::optional<planning::EnginePromise> Promise(size_t limit_bytes) {
    const auto read = cudnn::ReadTemplate(program_.real, undivided_->get());
    const auto& convolution = read->convolution;
    const auto found = program_.store.FindPromise(
        {convolution.problem, PlatformOf(program_.real), convolution.engine, limit_bytes});
    EXPECT_TRUE(found.ok()) << found.message();
    return *found;
  }
};

TEST(VastPlans, NeedNoMoreInTilesWithoutALimit) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  Options options = WithoutLimit();
  for (const bool gemm : {false, true}) {
    SCOPED_TRACE(gemm);
    TheVastLibrary().gemm_serves_tiles = gemm;
    VastPlan plan(problem, options);
    EXPECT_EQ(plan.ToldBytes(), 0u);
    plan.ExpectRight();
    // Only engine 0 (graph:0) of the stand-in needs no workspace.
    gemm ? plan.ExpectTilesOf("graph:0") : plan.ExpectWhole();
  }
}

TEST(VastPlans, RunEnginesOfTheirTilesWithinALimit) {
  for (const Operation operation : test::kOperations) {
    for (const bool fused : {false, true}) {
      if (fused && operation != Operation::kForward) continue;
      const ConvolutionProblem problem = Image(operation);
      SCOPED_TRACE(Describe(problem) + (fused ? " fused" : ""));
      const size_t limit = NeedOf(problem, Fused(fused)) / 3;
      VastPlan plan(problem, Measuring(limit), fused);
      EXPECT_GT(plan.ToldBytes(), 0u);
      EXPECT_LE(plan.ToldBytes(), limit);
      plan.ExpectRight();
      plan.ExpectTilesOf("graph:1");
      const auto promise = plan.Promise(limit);
      ASSERT_TRUE(promise);
      EXPECT_EQ(promise->workspace_bytes, plan.ToldBytes());
      EXPECT_EQ(promise->undivided, promise->engine);
    }
  }
}

TEST(VastPlans, AreToldTheSameWhateverTilesAndPolicySay) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  const size_t limit = NeedOf(problem) / 3;
  test::MemoryStore store;
  size_t told = 0;
  {
    VastPlan plan(problem, Measuring(limit), false, &store);
    told = plan.ToldBytes();
    ASSERT_GT(told, 0u);
  }
  {
    VastPlan plan(problem, Measuring(limit), false, &store);
    EXPECT_EQ(plan.ToldBytes(), told);
    plan.ExpectRight();
    plan.ExpectTilesOf("graph:1");
  }
  for (const bool policy : {false, true}) {
    Options options = Measuring(limit);
    options.tiles = policy;
    if (policy) options.policy = BatchSizePolicy::kUndivided;
    VastPlan plan(problem, options, false, &store);
    EXPECT_EQ(plan.ToldBytes(), told);
    plan.ExpectRight();
    plan.ExpectWhole();
  }
}

// A plan that needs no workspace gets no part of the budget, and no promise is made for its tiles.
TEST(VastPlans, NeedNoMoreInTilesUnderOneBudget) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  constexpr int kCalls = KernelSequence::kOfOneProblem + 1;
  const int between_checks = test::Cases(1, kCalls / 2);
  for (const bool limited : {false, true}) {
    for (const bool gemm : {false, true}) {
      SCOPED_TRACE(std::string(limited ? "limited " : "") + (gemm ? "gemm" : ""));
      const size_t limit = NeedOf(problem) / 3;
      Options options = Measuring(limit);
      if (!limited) options.workspace_limit.reset();
      options.total_workspace = 2 * limit;
      TheVastLibrary().gemm_serves_tiles = gemm;
      VastPlan plan(problem, options);
      EXPECT_EQ(plan.ToldBytes(), 0u);
      const auto memory = plan.Memory();
      for (int call = 0; call < kCalls; ++call) {
        call % between_checks == 0 ? plan.ExpectRight() : plan.Run(*memory);
      }
      plan.ExpectRight();
      gemm ? plan.ExpectTilesOf("graph:0") : plan.ExpectWhole();
      EXPECT_EQ(plan.Kernel()["owned_workspace_bytes"], 0);
      EXPECT_EQ(plan.Promise(limited ? limit : planning::kNoLimit), std::nullopt);
      EXPECT_EQ(plan.ToldBytes(), 0u);
    }
  }
}

// A program that assumes a need of 0 without asking the plan passes no workspace.
TEST(VastPlans, RunAsTheyAreWhereNoWorkspaceIsPassed) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  VastPlan plan(problem, Measuring(NeedOf(problem) / 3));
  ASSERT_GT(plan.ToldBytes(), 0u);
  const auto memory = plan.Memory();
  memory->Fill(3);
  EXPECT_EQ(
      memory->ExecuteWithoutWorkspace(plan.program().hooked, plan.program().handle, plan.plan()),
      CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(memory->Output(), plan.Undivided(3));
}

TEST(VastPlans, WhoseTilesAreWrongStayWholeAndAreToldTheirNeed) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  VastPlan plan(problem, Measuring(NeedOf(problem) / 3), false, nullptr,
                [](auto handle, auto plan, auto pack) {
                  return IsLowerEdge(plan) ? CUDNN_STATUS_SUCCESS
                                           : ::cudnnBackendExecute(handle, plan, pack);
                });
  EXPECT_EQ(plan.ToldBytes(), 0u);
  plan.ExpectRight();
  plan.ExpectWhole();
}

}  // namespace
}  // namespace ucudnn::interposer
