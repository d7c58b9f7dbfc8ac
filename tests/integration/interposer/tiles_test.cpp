// Tests algorithms that need more workspace than the user's limit even for a single image. In both
// APIs they run as tiles, in the workspace that the program is told, and give the same result.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include <ucudnn/ucudnn.h>
#include "cases.h"
#include "convolution/engine_name.h"
#include "layer.h"
#include "libraries.h"
#include "primed_store.h"
#include "protocol.h"
#include "queries.h"
#include "report_file.h"
#include "shim/host/hostgpu.h"
#include "suites.h"
#include "tests/support/deviceless_cudnn.h"

namespace ucudnn::test {
namespace {

// For all operations, algorithm 1 and engine 1 need more workspace than kLimit, and some of their
// tiles need less.
constexpr size_t kLimit = size_t{768} << 10;
constexpr int kFast = 1;  // the stand-in's direct convolution, which is exact on whole numbers

// Returns a problem with one image of 32 channels, and 3x3 filters to 32 channels of 128x128.
ConvolutionProblem Image(Operation operation, int pad = 1) {
  const int extent = 130 - 2 * pad;
  return ProblemWith({.operation = operation,
                      .n = 1,
                      .c = 32,
                      .k = 32,
                      .x = {1, extent, extent},
                      .pad = {0, pad, pad}});
}

// Returns Image(operation) with a larger distance between images, so ucudnn treats it as another
// kernel.
ConvolutionProblem AnotherImage(Operation operation) {
  ConvolutionProblem problem = Image(operation);
  problem.x_strides[0] += 4;
  return problem;
}

ConvolutionProblem ImageOfMath(MathType math) {
  ConvolutionProblem problem = AnotherImage(Operation::kForward);
  problem.math = math;
  return problem;
}

constexpr MathType kOtherMaths[] = {MathType::kTensorOp, MathType::kTensorOpAllowConversion,
                                    MathType::kFma};

std::vector<nlohmann::json> ReportedOf(const Convolution& convolution, const char* api) {
  std::vector<nlohmann::json> kernels = KernelsOf(ReadReport(), convolution.problem());
  std::erase_if(kernels, [&](const auto& kernel) { return kernel["api"] != api; });
  return kernels;
}

bool IsTiled(const nlohmann::json& kernel) {
  return kernel["reason"].get<std::string>().find("tiles") != std::string::npos &&
         Pieces(kernel) > 1;
}

// Expects that the report has a kernel of `api` with `pieces` tiles within the limit.
void ExpectTiles(const Convolution& convolution, const char* api, long pieces) {
  EXPECT_GT(pieces, 1);
  const auto kernels = ReportedOf(convolution, api);
  EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(), [&](const auto& kernel) {
    return IsTiled(kernel) && Pieces(kernel) == pieces && kernel["workspace_bytes"] <= kLimit;
  })) << ReadReport().dump(1);
}

// A timer for the stand-in. It returns 100 ms divided by the number of convolutions since the last
// call. So tiles seem faster than the undivided convolution when ucudnn times both on the whole
// tensors. These times are so long that ucudnn does not repeat runs to time them.
float FavourTiles(long long, long long) {
  static std::atomic<long> before = 0;
  const long run = hostgpuFaultCount("convolution");
  const long since = before.exchange(run);
  // ConvolutionsRun() sets hostgpuFaultCount("convolution") to 0, so `run` may be smaller than
  // `since`.
  return 100.0f / static_cast<float>(std::max(run >= since ? run - since : run, 1L));
}

class Tiles : public Protocol {
 protected:
  // The store has much longer times for undivided convolutions than any machine takes, so that
  // tiles are faster on every machine.
  static void SetUpTestSuite() {
    PrimedStore store;
    const auto add = [&](const ConvolutionProblem& problem) {
      store.Add(AsRead(problem), {1},
                [](int algorithm, int) { return algorithm == kFast ? 1e4 : 1e5 + algorithm; });
    };
    for (const Operation operation : kOperations) {
      add(Image(operation));
      add(Image(operation, 0));
      add(AnotherImage(operation));
    }
    for (const MathType math : kOtherMaths) add(ImageOfMath(math));
    store.Write(false);
  }

  // Runs the convolution twice; the first call measures and compares. Returns the number of
  // convolutions of the second call.
  static long Run(Convolution& convolution, int algorithm, size_t bytes,
                  const Scales& scales = {}) {
    RunAndCompare(convolution, algorithm, bytes, scales);
    return RunAndCompare(convolution, algorithm, bytes, scales);
  }

  // Makes a plan of engine `number`, expects that its workspace is at most `limit`, and runs the
  // plan in exactly that workspace. Returns the number of convolutions that ran.
  static long RunPlan(Convolution& convolution, int number, size_t limit) {
    const Graph graph(convolution.problem(), {}, DropIn(), {convolution.handle(), nullptr});
    const auto plan = graph.Plan(number);
    if (!plan) return 0;
    const auto bytes = cudnn::PlanWorkspace(DropIn(), plan->get());
    EXPECT_TRUE(bytes.ok()) << bytes.message();
    EXPECT_LE(*bytes, limit);
    const Bytes expected = convolution.FillAndExpect(21);
    const GuardedMemory workspace(*bytes);
    const auto pack = PackOf(convolution, workspace.data());
    EXPECT_TRUE(pack);
    if (!pack) return 0;
    ConvolutionsRun();
    EXPECT_EQ(cudnnBackendExecute(convolution.handle(), plan->get(), pack->get()),
              CUDNN_STATUS_SUCCESS);
    const long ran = ConvolutionsRun();
    convolution.ExpectOutput(expected, &workspace);
    return ran;
  }
};

// Neither tiles nor other algorithms support an identity activation, which the program may add to
// algorithm 1 of forward. So ucudnn reports the real need, but plain calls run as tiles within the
// limit.
TEST_F(Tiles, ServeAnAlgorithmThatTheProgramNames) {
  Convolution convolution(Image(Operation::kForward));
  const size_t need = RealNeed(convolution, kFast).value();
  ASSERT_GT(need, kLimit);
  EXPECT_EQ(ReportedNeed(convolution, kFast), need);
  ExpectTiles(convolution, "legacy", Run(convolution, kFast, need));
  // Tiles are plans of the graph API without scales, so a scaled call runs undivided.
  EXPECT_EQ(Run(convolution, kFast, need, {2, 1}), 1);
}

// Tiles cannot run scaled calls, and no other algorithm of a gradient is as deterministic. So
// ucudnn reports the real need, and the algorithm runs undivided.
TEST_F(Tiles, LeaveANamedAlgorithmThatNothingReplaces) {
  for (const Operation operation : {Operation::kBackwardData, Operation::kBackwardFilter}) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(Image(operation));
    const size_t need = RealNeed(convolution, kFast).value();
    EXPECT_GT(need, kLimit);
    EXPECT_EQ(ReportedNeed(convolution, kFast), need);
    EXPECT_EQ(Run(convolution, kFast, need), 1);
  }
  EXPECT_NE(ReadReport()["fallbacks"].dump().find("tiles fit, and no undivided algorithm"),
            std::string::npos)
      << ReadReport().dump(1);
}

TEST_F(Tiles, ServeWhatTheProgramIsTold) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(AnotherImage(operation));
    const Answer answer = Ask(DropIn(), Question::kFind, convolution, kAlgorithms);
    ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
    ASSERT_FALSE(answer.algorithms.empty());
    long most = 0;
    size_t room = 0;
    for (const auto& told : answer.algorithms) {
      EXPECT_LE(told.workspace_bytes, kLimit);
      // Only direct algorithms are exact on integers.
      if (LegacyNumericClass(operation, told.algorithm) != NumericClass::kDirect) continue;
      const long pieces = Run(convolution, told.algorithm, told.workspace_bytes);
      most = std::max(most, pieces);
      if (pieces == 1) continue;
      room = told.workspace_bytes;
      EXPECT_EQ(ReportedNeed(convolution, told.algorithm), room);
      // Calls that tiles cannot run use another engine, which fits the same workspace.
      EXPECT_EQ(Run(convolution, told.algorithm, room, {2, 1}), 1);
      Placements odd;
      odd.x.offset = odd.y.offset = sizeof(float);
      Convolution misaligned(AnotherImage(operation), Extra::kNone, false, odd);
      EXPECT_EQ(Run(misaligned, told.algorithm, room), 1);
      if (operation != Operation::kForward) continue;
      Convolution activated(AnotherImage(operation), Extra::kRelu);
      EXPECT_EQ(Run(activated, told.algorithm, room), 1);
    }
    ExpectTiles(convolution, "legacy", most);
    EXPECT_GT(room, 0u);
  }
}

TEST_F(Tiles, ServeEveryMathType) {
  for (const MathType math : kOtherMaths) {
    SCOPED_TRACE(static_cast<int>(math));
    Convolution convolution(ImageOfMath(math));
    UseMath(convolution, static_cast<cudnnMathType_t>(math));
    const Answer answer = Ask(DropIn(), Question::kFind, convolution, kAlgorithms);
    long most = 0;
    for (const auto& told : answer.algorithms) {
      if (LegacyNumericClass(Operation::kForward, told.algorithm) != NumericClass::kDirect) {
        continue;
      }
      UseMath(convolution, told.math);
      most = std::max(most, Run(convolution, told.algorithm, told.workspace_bytes));
    }
    EXPECT_GT(most, 1);
  }
}

TEST_F(Tiles, ServeAPlanByItsOwnEngine) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(AsRead(Image(operation)));
    const long pieces = RunPlan(convolution, kFast, kLimit);
    ExpectTiles(convolution, "graph", pieces);
    for (const auto& kernel : ReportedOf(convolution, "graph")) {
      for (const std::string& engine : Engines(kernel)) EXPECT_TRUE(engine.starts_with("graph:1"));
    }
  }
}

// Under a budget, ucudnn reports a need of 0, and tiles use ucudnn's own workspace.
class TilesInBudget : public Tiles {};

TEST_F(TilesInBudget, RunInWhatUcudnnBrings) {
  const OwnHandle handle;
  std::vector<std::pair<std::unique_ptr<Convolution>, int>> network;
  for (const Operation operation : kOperations) {
    auto convolution = std::make_unique<Convolution>(Image(operation));
    convolution->UseHandle(handle.get());
    const Answer answer = Ask(DropIn(), Question::kFind, *convolution, kAlgorithms);
    ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
    const auto direct =
        std::find_if(answer.algorithms.begin(), answer.algorithms.end(), [&](const auto& told) {
          return LegacyNumericClass(operation, told.algorithm) == NumericClass::kDirect;
        });
    ASSERT_NE(direct, answer.algorithms.end());
    EXPECT_EQ(direct->workspace_bytes, 0u);
    RunAndCompare(*convolution, direct->algorithm, 0);
    network.emplace_back(std::move(convolution), direct->algorithm);
  }
  ASSERT_EQ(ucudnnEndRecording(handle.get()), CUDNN_STATUS_SUCCESS) << ucudnnGetLastError();
  for (const auto& [convolution, algorithm] : network) {
    SCOPED_TRACE(OperationName(convolution->problem().operation));
    const long pieces = Run(*convolution, algorithm, 0);
    ExpectTiles(*convolution, "legacy", pieces);
    // Tiles are plans of the graph API without scales, so a scaled call runs undivided.
    EXPECT_EQ(Run(*convolution, algorithm, 0, {2, 1}), 1);
  }
  EXPECT_LE(ReadReport()["total_workspace"]["total_workspace_bytes"], kLimit);
}

// Ranks measure different times, but all ranks cut the same tiles.
class TilesOfRanks : public Tiles {};

TEST_F(TilesOfRanks, Step) {
  if (std::getenv("WORLD_SIZE") == nullptr) GTEST_SKIP() << "runs in the processes of other tests";
  for (const Operation operation : kOperations) {
    Convolution convolution(AsRead(Image(operation)));
    EXPECT_GT(RunPlan(convolution, kFast, kLimit), 1);
  }
}

TEST_F(TilesOfRanks, AreTheSame) {
  constexpr int kRanks = 3;
  std::vector<TestProcess> processes;
  for (int rank = 0; rank < kRanks; ++rank) {
    processes.emplace_back("TilesOfRanks.Step", "rank" + std::to_string(rank) + ".json",
                           Environment{{"RANK", std::to_string(rank)},
                                       {"WORLD_SIZE", std::to_string(kRanks)},
                                       {"HOSTGPU_DEVICES", std::to_string(kRanks)}});
  }
  std::vector<nlohmann::json> plans;
  long measured = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(processes[rank].Passed()) << "rank " << rank;
    const auto report = ReadReport(Folder() + "/rank" + std::to_string(rank) + ".json");
    measured += report["measured"].get<long>();
    nlohmann::json& of_rank = plans.emplace_back();
    for (const auto& kernel : report["kernels"]) of_rank.push_back(kernel["plan"]);
    EXPECT_EQ(of_rank, plans[0]) << "rank " << rank;
    EXPECT_TRUE(report["fallbacks"].empty()) << report["fallbacks"].dump(1);
  }
  EXPECT_GT(measured, 0);
}

class TilesOff : public Tiles {};

TEST_F(TilesOff, NothingRunsInTiles) {
  Convolution convolution(Image(Operation::kForward));
  EXPECT_EQ(Run(convolution, kFast, RealNeed(convolution, kFast).value()), 1);
  for (const auto& kernel : KernelsOf(ReadReport(), convolution.problem())) {
    EXPECT_FALSE(IsTiled(kernel)) << kernel.dump(1);
  }
}

// With UCUDNN_ENGINES=legacy, tiles need equal padding on both sides, because descriptors of the
// legacy API have one pad for each axis. Tiles at an edge of a padded image have padding on one
// side only.
class TilesOfLegacyEngines : public Tiles {};

TEST_F(TilesOfLegacyEngines, AreNotOfferedWherePaddingIsCut) {
  Convolution convolution(Image(Operation::kForward));
  EXPECT_EQ(Run(convolution, kFast, RealNeed(convolution, kFast).value()), 1);
}

TEST_F(TilesOfLegacyEngines, ServeWhereNoneIs) {
  Convolution convolution(Image(Operation::kForward, 0));
  const size_t need = RealNeed(convolution, kFast).value();
  ASSERT_GT(need, kLimit);
  ExpectTiles(convolution, "legacy", Run(convolution, kFast, need));
}

// This process writes a workspace plan with the tiles that it ran. Another process follows the
// plan.
TEST_F(TilesOfLegacyEngines, AreFollowedFromAWorkspacePlan) {
  Convolution convolution(Image(Operation::kForward, 0));
  const size_t need = RealNeed(convolution, kFast).value();
  if (std::getenv("UCUDNN_WORKSPACE_PLAN") != nullptr) {
    EXPECT_EQ(ReportedNeed(convolution, kFast), need);
    EXPECT_GT(Run(convolution, kFast, need), 1);
    EXPECT_GT(Run(convolution, kFast, need, {2, 1}), 1) << "algorithms take any scales";
    EXPECT_NE(ReadReport()["kernels"].dump().find("tiles, as the workspace plan says"),
              std::string::npos)
        << ReadReport().dump(1);
    EXPECT_EQ(ReadReport()["measured"], 0);
    return;
  }
  EXPECT_GT(Run(convolution, kFast, need), 1);
  nlohmann::json kernel = {{"order_after", nlohmann::json::array()}};
  for (const auto& reported : ReportedOf(convolution, "legacy")) {
    if (!IsTiled(reported)) continue;
    for (const char* member : {"op", "problem", "api", "plan"}) kernel[member] = reported[member];
  }
  const planning::Platform platform = CurrentPlatform();
  const std::string path = Folder() + "/plan.json";
  std::ofstream(path) << nlohmann::json({{"format", "ucudnn-workspace-plan"},
                                         {"version", 2},
                                         {"cudnn", platform.cudnn},
                                         {"device", platform.device},
                                         {"limit_bytes", kLimit},
                                         {"division", "concurrent"},
                                         {"kernels", {kernel}}});
  EXPECT_TRUE(TestProcess("TilesOfLegacyEngines.AreFollowedFromAWorkspacePlan", "",
                          {{"UCUDNN_WORKSPACE_PLAN", path}, {"UCUDNN_DATABASE", "none"}})
                  .Passed());
}

class NoRoomForTiles : public Tiles {};

bool SaysTheLeast(const Convolution& convolution) {
  const auto kernels = KernelsOf(ReadReport(), convolution.problem());
  return std::any_of(kernels.begin(), kernels.end(), [](const auto& kernel) {
    return kernel["reason"].template get<std::string>().find("tiles need ") != std::string::npos;
  });
}

TEST_F(NoRoomForTiles, TheLeastThatWouldDoIsSaid) {
  Convolution convolution(Image(Operation::kForward));
  EXPECT_EQ(Run(convolution, kFast, RealNeed(convolution, kFast).value()), 1);
  EXPECT_TRUE(SaysTheLeast(convolution)) << ReadReport().dump(1);
}

TEST_F(NoRoomForTiles, TheLeastIsSaidToAProgramThatAsks) {
  Convolution convolution(AnotherImage(Operation::kForward));
  const Answer answer = Ask(DropIn(), Question::kFind, convolution, kAlgorithms);
  ASSERT_FALSE(answer.algorithms.empty());
  const auto& told = answer.algorithms.front();
  EXPECT_EQ(Run(convolution, told.algorithm, told.workspace_bytes), 1);
  EXPECT_TRUE(SaysTheLeast(convolution)) << ReadReport().dump(1);
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  hostgpuSetTimer(ucudnn::test::FavourTiles);
  const std::string limit = std::to_string(ucudnn::test::kLimit);
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"Tiles", {{"UCUDNN_WORKSPACE_LIMIT", limit}}},
       {"TilesInBudget", {{"UCUDNN_TOTAL_WORKSPACE", limit}}},
       {"TilesOfRanks", {{"UCUDNN_WORKSPACE_LIMIT", limit}}},
       {"TilesOff", {{"UCUDNN_WORKSPACE_LIMIT", limit}, {"UCUDNN_TILES", "off"}}},
       {"NoRoomForTiles", {{"UCUDNN_WORKSPACE_LIMIT", "0"}}},
       {"TilesOfLegacyEngines", {{"UCUDNN_WORKSPACE_LIMIT", limit}, {"UCUDNN_ENGINES", "legacy"}}}},
      {{"UCUDNN_ENGINES", "both"}});
}
