// Execution plans of one image that exceed the limit, on the stand-in's real arithmetic: tiles of
// their own engine compute the same, also inside captures and where operations are fused, and
// faults of one kind of tile are found before a program is told of any.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "graph_program.h"
#include "tests/support/options.h"

namespace ucudnn::interposer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ConvolutionProblem Image(Operation operation, DataType type = DataType::kFloat) {
  return test::ProblemWith(
      {.operation = operation, .n = 1, .c = 16, .k = 16, .x = {1, 64, 64}, .type = type});
}

size_t NeedOf(const ConvolutionProblem& problem, const GraphOptions& graph_options) {
  const Program program{Options()};
  const test::Graph graph(problem, graph_options, program.real, {program.handle});
  return *cudnn::PlanWorkspace(program.real, graph.Plan(kEngine)->get());
}

// Plans are measured before they are told what they need.
Options Measuring(size_t limit_bytes) {
  Options options = test::Within(limit_bytes);
  options.tuning.on = true;
  options.tuning.kernel_seconds = options.tuning.process_seconds = 600;
  return options;
}

class TiledPlan : public OnePlan {
 public:
  TiledPlan(const ConvolutionProblem& problem, const GraphOptions& graph_options,
            const Options& options,
            decltype(cudnn::Functions::cudnnBackendExecute) execute = nullptr,
            decltype(cudnn::Functions::cudnnBackendFinalize) finalize = nullptr,
            planning::MeasurementStore* shared = nullptr)
      : OnePlan(problem, graph_options, options, execute, shared) {
    if (finalize != nullptr) program_.under.cudnnBackendFinalize = finalize;
    MakePlans();
  }
  nlohmann::json Kernel() { return program_.Report()["kernels"][0]; }
  std::string Reason() { return Kernel()["reason"]; }
  int Pieces() {
    int pieces = 0;
    const nlohmann::json kernel = Kernel();
    for (const auto& run : kernel["plan"]) pieces += run["count"].get<int>();
    return pieces;
  }
  // A few calls, each with operands of its own.
  void ExpectRight() {
    const auto memory = Memory();
    for (int seed = 1; seed <= 3; ++seed) {
      memory->Fill(seed);
      Run(*memory);
      EXPECT_EQ(memory->Output(), Undivided(seed)) << Reason();
      EXPECT_TRUE(memory->GuardsAreIntact());
    }
  }
};

TEST(GraphTiles, ComputeWhatThePlanDoes) {
  for (const Operation operation : test::kOperations) {
    for (const bool fused : {false, true}) {
      if (fused && operation != Operation::kForward) continue;
      const ConvolutionProblem problem = Image(operation);
      SCOPED_TRACE(Describe(problem) + (fused ? " fused" : ""));
      const size_t limit = NeedOf(problem, Fused(fused)) / 3;
      TiledPlan plan(problem, Fused(fused), Measuring(limit));
      EXPECT_LE(plan.Told(), limit);
      plan.ExpectRight();
      EXPECT_THAT(plan.Reason(), HasSubstr("tiles"));
      EXPECT_GT(plan.Pieces(), 1);
    }
  }
}

// The whole is too large to be compared in the memory for measuring, its tiles are not.
TEST(GraphTiles, FitALimitWhereTheWholeCannotBeCompared) {
  for (const Operation operation : test::kOperations) {
    const ConvolutionProblem problem = Image(operation);
    SCOPED_TRACE(Describe(problem));
    Options options = Measuring(NeedOf(problem, {}) / 3);
    options.tuning.memory_bytes = 5 * cudnn::ImageBytes(problem) / 2;
    TiledPlan plan(problem, {}, options);
    plan.ExpectRight();
    EXPECT_THAT(plan.Reason(), HasSubstr("tiles"));
    EXPECT_GT(plan.Pieces(), 1);
  }
}

TEST(GraphTiles, RunInCaptures) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  TiledPlan plan(problem, {}, Measuring(NeedOf(problem, {}) / 3));
  plan.ExpectRight();
  ASSERT_GE(plan.Pieces(), 4);
  CaptureSetting(plan).ExpectReplaysBesideCalls();
}

// A native graph of tiles computes what the call does, and once updated in other memory.
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

// Where a tile cannot become a graph the whole does, and a graph that is half updated is told of.
TEST(GraphTiles, WhoseNativeGraphFailsAtAnyTileAreRightOrToldOf) {
  static int left = 0;  // tiles until one fails
  const ConvolutionProblem problem = Image(Operation::kForward);
  TiledPlan plan(problem, {}, Measuring(NeedOf(problem, {}) / 3));
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

TEST(GraphTiles, WhatWasPromisedIsPromisedWithoutThemToo) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  Options options = Measuring(NeedOf(problem, {}) / 3);
  test::MemoryStore store;
  size_t told = 0;
  {
    TiledPlan plan(problem, {}, options, nullptr, nullptr, &store);
    told = plan.Told();
    ASSERT_GT(plan.Pieces(), 1);
  }
  options.tiles = false;
  TiledPlan plan(problem, {}, options, nullptr, nullptr, &store);
  EXPECT_EQ(plan.Told(), told);
  plan.ExpectRight();
  EXPECT_EQ(plan.Pieces(), 1);
}

// The second process looks for grids within what the first one promised, and may measure one that
// was not among those of the user's limit. From then on all are in the store.
TEST(GraphTiles, AnotherProcessFindsThemInTheStore) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  const Options options = Measuring(NeedOf(problem, {}) / 3);
  test::MemoryStore store;
  nlohmann::json plans[2];
  for (nlohmann::json& known : plans) {
    TiledPlan plan(problem, {}, options, nullptr, nullptr, &store);
    known = plan.Kernel()["plan"];
    ASSERT_EQ(known[0]["border"], "h-") << known;
    ASSERT_TRUE(known[0]["tile"].contains("h")) << known;
    ASSERT_TRUE(&known != plans || plan.program().Report()["measured"].get<long>() > 0);
  }
  TiledPlan plan(problem, {}, options, nullptr, nullptr, &store);
  EXPECT_EQ(plan.program().Report()["measured"].get<long>(), 0);
  EXPECT_EQ(plan.Kernel()["plan"], plans[1]);
  plan.ExpectRight();
}

// Whether the plan computes a tile at the lower edge.
bool IsLowerEdge(cudnnBackendDescriptor_t plan) {
  const auto read = cudnn::ReadTemplate(test::StandInGraphs(), plan);
  return read.ok() && read->convolution.problem.extra_pad[1] > 0;
}

// An engine that does not serve one kind of tile leaves the plan whole, and the reason names it.
TEST(GraphTiles, AreNotOfferedWhereAnEdgeIsNotServed) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  const size_t need = NeedOf(problem, {});
  TiledPlan plan(problem, {}, Measuring(need / 3), nullptr, [](auto descriptor) {
    const cudnnStatus_t status = test::StandInGraphs().cudnnBackendFinalize(descriptor);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    return IsLowerEdge(descriptor) ? CUDNN_STATUS_NOT_SUPPORTED : status;
  });
  EXPECT_EQ(plan.Told(), need);
  plan.ExpectRight();
  EXPECT_THAT(plan.Reason(), HasSubstr("does not serve its tiles forward"));
}

// The tiles at one edge are left unwritten: no grid is trusted.
TEST(GraphTiles, OfWhichOneKindIsWrongNeverRun) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  const size_t limit = NeedOf(problem, {}) / 3;
  TiledPlan plan(problem, {}, Measuring(limit), [](auto handle, auto plan, auto pack) {
    return IsLowerEdge(plan) ? CUDNN_STATUS_SUCCESS : ::cudnnBackendExecute(handle, plan, pack);
  });
  plan.ExpectRight();
  EXPECT_THAT(plan.Reason(), Not(HasSubstr("tiles")));
  EXPECT_THAT(plan.program().Report()["fallbacks"].dump(), HasSubstr("a divided plan is wrong"));
}

}  // namespace
}  // namespace ucudnn::interposer
