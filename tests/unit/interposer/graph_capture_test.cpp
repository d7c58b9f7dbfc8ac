// Tests CUDA graphs of the graph API's plans on the stand-in. A step that is captured after a
// warm-up replays its pieces. A step without a warm-up is captured undivided. If another thread
// decides and measures during a capture, it does not disturb the capture.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <thread>

#include "graph_program.h"

namespace ucudnn::interposer {
namespace {

constexpr CUstreamCaptureMode kModes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                          CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                          CU_STREAM_CAPTURE_MODE_RELAXED};

// A program whose plan is divided into pieces of two images, on a stream of its own.
class CapturedStep : public OnePlan {
 public:
  explicit CapturedStep(Operation operation, const Options& options = test::Planned())
      : OnePlan(Problem(operation), false, options) {
    program_.Measured(whole_, kEngine, 100);
    PartsMeasured(kEngine, 1);
    MakePlans();
    operands_ = Memory();
  }

  int Pieces() const { return problem_.n / kPart; }
  void Run() { OnePlan::Run(*operands_); }
  // Captures one execution and returns the number of nodes of the graph.
  size_t Capture(CUstreamCaptureMode mode, CUgraphExec* exec) {
    const CUgraph graph = stream_.Capture([&] { Run(); }, mode);
    const size_t nodes = test::NodesOf(graph);
    EXPECT_EQ(cuGraphInstantiate(exec, graph, 0), CUDA_SUCCESS);
    stream_.DestroyGraphs();
    return nodes;
  }
  // Expects that every replay computes the same bits as the undivided plan from the same contents.
  void ExpectReplays(CUgraphExec exec) {
    for (int seed = 1; seed <= 4; ++seed) {
      operands_->Fill(seed);
      const Values expected = Undivided(seed);
      EXPECT_EQ(cuGraphLaunch(exec, stream_.get()), CUDA_SUCCESS);
      EXPECT_EQ(operands_->Output(), expected) << "replay " << seed;
      EXPECT_TRUE(operands_->GuardsAreIntact());
    }
    EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  }

 private:
  std::unique_ptr<Operands> operands_;
  test::HandleStream stream_{program_.interposer, program_.handle};
};

class GraphCapture : public ::testing::TestWithParam<Operation> {};

TEST_P(GraphCapture, AfterAWarmUpItReplaysThePieces) {
  for (const CUstreamCaptureMode mode : kModes) {
    SCOPED_TRACE(mode);
    CapturedStep step(GetParam());
    step.Run();
    CUgraphExec exec = nullptr;
    EXPECT_EQ(step.Capture(mode, &exec), static_cast<size_t>(step.Pieces()));
    step.ExpectReplays(exec);
  }
}

TEST_P(GraphCapture, WithoutAWarmUpItIsUndivided) {
  for (const CUstreamCaptureMode mode : kModes) {
    SCOPED_TRACE(mode);
    CapturedStep step(GetParam());
    CUgraphExec exec = nullptr;
    EXPECT_EQ(step.Capture(mode, &exec), 1u);
    step.ExpectReplays(exec);
    EXPECT_EQ(step.Kernel()["undivided_calls"], 1);
    // The pieces run outside a capture first, so the next capture contains them.
    step.Run();
    EXPECT_EQ(step.Capture(mode, &exec), static_cast<size_t>(step.Pieces()));
    step.ExpectReplays(exec);
    const auto kernel = step.Kernel();
    EXPECT_EQ(kernel["calls"], 3);
    EXPECT_EQ(kernel["undivided_calls"], 1);
  }
}

TEST_P(GraphCapture, MeasuringOnAnotherThreadLeavesItAlone) {
  Options options;
  options.policy = BatchSizePolicy::kPowerOfTwo;
  CapturedStep step(GetParam(), options);
  step.Run();
  const long measured_before = step.program().interposer.kernels().measured();
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  cudnnHandle_t handle = nullptr;
  ASSERT_EQ(step.program().interposer.sessions().Create(&handle), CUDNN_STATUS_SUCCESS);
  std::atomic<bool> done = false;
  std::thread other([&] {
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    for (int channels = 5; channels < 8; ++channels) {
      ConvolutionProblem problem = Problem(GetParam());
      problem.c = channels;
      SetPackedStrides(problem);
      const test::Graph graph(problem, {}, step.program().hooked, {handle});
      EXPECT_TRUE(graph.Plan(kEngine));
    }
    done = true;
  });
  std::vector<CUgraphExec> execs;
  while (!done || execs.empty()) {
    execs.emplace_back();
    EXPECT_GT(step.Capture(kModes[execs.size() % 3], &execs.back()), 1u);
    if (HasFailure()) break;
  }
  other.join();
  EXPECT_GT(step.program().interposer.kernels().measured(), measured_before);
  for (size_t i = 0; i + 1 < execs.size(); ++i) {
    EXPECT_EQ(cuGraphExecDestroy(execs[i]), CUDA_SUCCESS);
  }
  step.ExpectReplays(execs.back());
  step.program().interposer.sessions().Destroy(handle);
}

INSTANTIATE_TEST_SUITE_P(Operations, GraphCapture,
                         ::testing::Values(Operation::kForward, Operation::kBackwardData,
                                           Operation::kBackwardFilter),
                         [](const auto& given) { return OperationName(given.param); });

}  // namespace
}  // namespace ucudnn::interposer
