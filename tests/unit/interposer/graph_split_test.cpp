// Plans of the graph API in a process whose images are split, whose two ranks are threads, on the
// stand-in's real arithmetic.
#include <gmock/gmock.h>

#include <barrier>
#include <functional>
#include <thread>

#include "graph_program.h"
#include "tests/support/options.h"

namespace ucudnn::interposer {
namespace {

using ::testing::HasSubstr;

constexpr int kSplitRanks = 2;

// With the ranks of a grid as threads of this process.
Options SplitInTwo(Options options) {
  options.spatial.grid = *SpatialGrid::Parse("h2");
  options.spatial.transport = SpatialTransport::kLoopback;
  options.spatial.timeout_seconds = 60;
  ConcludeSpatial(nullptr, options.spatial);
  EXPECT_TRUE(options.spatial.in_process);
  EXPECT_EQ(options.spatial.refusal, "");
  return options;
}

// One rank's stripe of a convolution that needs no other rank's rows, so that its part of the
// result is what its own rows give.
ConvolutionProblem StripeOfOneTap() {
  return test::ProblemWith({.x = {1, 6, 12}, .w = {1, 1, 1}, .pad = {0, 0, 0}});
}

// The program's ranks, each on a thread of its own with a handle and a stream.
class SplitProgram : public Program {
 public:
  using Program::Program;
  ~SplitProgram() { interposer.process().splitter.Leave(); }

  void OnAllRanks(const std::function<void(int, cudnnHandle_t)>& work) {
    CUcontext context = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kSplitRanks; ++rank) {
      threads.emplace_back([&, rank] {
        ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
        Sessions& sessions = interposer.sessions();
        cudnnHandle_t own = nullptr;
        CUstream stream = nullptr;
        ASSERT_EQ(sessions.Create(&own), CUDNN_STATUS_SUCCESS);
        ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        EXPECT_EQ(sessions.SetStream(own, stream), CUDNN_STATUS_SUCCESS);
        const Status joined = interposer.process().splitter.Join(own, rank);
        EXPECT_TRUE(joined.ok()) << joined.message();
        work(rank, own);
        EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
        EXPECT_EQ(sessions.Destroy(own), CUDNN_STATUS_SUCCESS);
        EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

// What the plan gives undivided, on the rank's rows alone.
Values OnOwnRows(const SplitProgram& program, const ConvolutionProblem& problem,
                 cudnnHandle_t handle, int seed) {
  const test::Graph graph(problem, {}, program.real, {handle});
  const auto plan = graph.Plan(kEngine);
  EXPECT_TRUE(plan);
  if (!plan) return {};
  Operands operands(problem, GraphOptions(), *cudnn::PlanWorkspace(program.real, plan->get()));
  operands.Fill(seed);
  EXPECT_EQ(operands.Execute(program.real, handle, plan->get()), CUDNN_STATUS_SUCCESS);
  return operands.Output();
}

// Three calls of a plan on each rank, which are right. A rank reads its result, which waits for all
// streams, while the other has made the same call and not yet the next.
void ExpectSplitCalls(SplitProgram& program) {
  std::barrier meet(kSplitRanks);
  program.OnAllRanks([&](int rank, cudnnHandle_t handle) {
    const ConvolutionProblem problem = StripeOfOneTap();
    const test::Graph graph(problem, {}, program.hooked, {handle});
    const auto plan = graph.Plan(kEngine);
    EXPECT_TRUE(plan) << "it is refused";
    if (!plan) {
      meet.arrive_and_drop();
      return;
    }
    Operands operands(problem, GraphOptions(), *cudnn::PlanWorkspace(program.hooked, plan->get()));
    for (int step = 0; step < 3; ++step) {
      const int seed = 10 * rank + step;
      operands.Fill(seed);
      EXPECT_EQ(operands.Execute(program.hooked, handle, plan->get()), CUDNN_STATUS_SUCCESS);
      meet.arrive_and_wait();
      EXPECT_EQ(operands.Output(), OnOwnRows(program, problem, handle, seed));
      meet.arrive_and_wait();
    }
    EXPECT_TRUE(operands.GuardsAreIntact());
  });
  EXPECT_EQ(program.Report()["spatial"]["calls"], kSplitRanks * 3);
}

TEST(GraphSplit, CallsAreSplitBeyondTheLastRememberedPlanToo) {
  for (const size_t remembered : {kMostKernels, size_t{0}}) {
    SCOPED_TRACE(remembered);
    SplitProgram program(SplitInTwo(test::Planned()));
    program.interposer.graph().set_most_kernels(remembered);
    ExpectSplitCalls(program);
    const std::string fallbacks = program.Report()["fallbacks"].dump();
    if (remembered == 0) {
      EXPECT_THAT(fallbacks, HasSubstr("too many different kernels"));
    } else {
      EXPECT_EQ(fallbacks.find("too many"), std::string::npos) << fallbacks;
    }
  }
}

TEST(GraphSplit, PlansBeyondTheLastRememberedOneAreNotMeasured) {
  Options options = test::Planned();
  options.tuning.on = true;
  SplitProgram program(SplitInTwo(options));
  program.interposer.graph().set_most_kernels(0);
  ExpectSplitCalls(program);
  EXPECT_EQ(program.interposer.process().kernels.measured(), 0);
}

}  // namespace
}  // namespace ucudnn::interposer
