// Tests CUDA graphs of the graph API's plans on the stand-in: a step that is captured after a
// warm-up replays its pieces, a step without a warm-up is captured undivided, and deciding and
// measuring on another thread does not disturb a capture.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "graph_program.h"

namespace ucudnn::interposer {
namespace {

constexpr CUstreamCaptureMode kModes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                          CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                          CU_STREAM_CAPTURE_MODE_RELAXED};

// A program whose plan is divided into pieces of two images, on a stream of its own.
class CapturedStep {
 public:
  CapturedStep(Operation operation, const Options& options)
      : problem_(Problem(operation)),
        program_(options),
        whole_(problem_, {}, program_.real, {program_.handle}),
        hooked_(problem_, {}, program_.hooked, {program_.handle}) {
    ConvolutionProblem part = problem_;
    part.n = kPart;
    program_.Measured(whole_, kEngine, 100);
    program_.Measured(test::Graph(part, GraphOptions(), program_.real, {program_.handle}), kEngine,
                      1);
    plan_ = hooked_.Plan(kEngine);
    undivided_ = whole_.Plan(kEngine);
    EXPECT_TRUE(plan_ && undivided_);
    operands_ = std::make_unique<Operands>(problem_, GraphOptions(),
                                           *cudnn::PlanWorkspace(program_.hooked, plan_->get()));
    EXPECT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(program_.interposer.sessions().SetStream(program_.handle, stream_),
              CUDNN_STATUS_SUCCESS);
  }
  ~CapturedStep() {
    EXPECT_EQ(program_.interposer.sessions().SetStream(program_.handle, nullptr),
              CUDNN_STATUS_SUCCESS);
    cuStreamDestroy(stream_);
  }
  static Options Stored() {
    Options options;
    options.tuning.on = false;
    options.policy = BatchSizePolicy::kPowerOfTwo;
    return options;
  }

  Program& program() { return program_; }
  int Pieces() const { return problem_.n / kPart; }
  void Run() {
    EXPECT_EQ(operands_->Execute(program_.hooked, program_.handle, plan_->get()),
              CUDNN_STATUS_SUCCESS);
  }
  // Captures one execution and returns the number of its nodes.
  size_t Capture(CUstreamCaptureMode mode, CUgraphExec* exec) {
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamBeginCapture(stream_, mode), CUDA_SUCCESS);
    Run();
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
    size_t nodes = 0;
    EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphInstantiate(exec, graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    return nodes;
  }
  // Expects that every replay computes the same bits as the undivided plan from the same contents.
  void ExpectReplays(CUgraphExec exec) {
    for (int seed = 1; seed <= 4; ++seed) {
      operands_->Fill(seed);
      Operands others(problem_, GraphOptions(),
                      *cudnn::PlanWorkspace(program_.real, undivided_->get()));
      others.Fill(seed);
      EXPECT_EQ(others.Execute(program_.real, program_.handle, undivided_->get()),
                CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
      EXPECT_EQ(operands_->Output(), others.Output()) << "replay " << seed;
      EXPECT_TRUE(operands_->GuardsAreIntact());
    }
    EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  }

 private:
  const ConvolutionProblem problem_;
  Program program_;
  const test::Graph whole_, hooked_;
  std::optional<cudnn::BackendDescriptor> plan_, undivided_;
  std::unique_ptr<Operands> operands_;
  CUstream stream_ = nullptr;
};

class GraphCapture : public ::testing::TestWithParam<Operation> {};

TEST_P(GraphCapture, AfterAWarmUpItReplaysThePieces) {
  for (const CUstreamCaptureMode mode : kModes) {
    SCOPED_TRACE(mode);
    CapturedStep step(GetParam(), CapturedStep::Stored());
    step.Run();
    CUgraphExec exec = nullptr;
    EXPECT_EQ(step.Capture(mode, &exec), static_cast<size_t>(step.Pieces()));
    step.ExpectReplays(exec);
  }
}

TEST_P(GraphCapture, WithoutAWarmUpItIsUndivided) {
  for (const CUstreamCaptureMode mode : kModes) {
    SCOPED_TRACE(mode);
    CapturedStep step(GetParam(), CapturedStep::Stored());
    CUgraphExec exec = nullptr;
    EXPECT_EQ(step.Capture(mode, &exec), 1u);
    step.ExpectReplays(exec);
    EXPECT_EQ(step.program().Report()["kernels"][0]["undivided_calls"], 1);
    // Pieces run outside a capture, so the next capture contains them.
    step.Run();
    EXPECT_EQ(step.Capture(mode, &exec), static_cast<size_t>(step.Pieces()));
    step.ExpectReplays(exec);
    const auto kernel = step.program().Report()["kernels"][0];
    EXPECT_EQ(kernel["calls"], 3);
    EXPECT_EQ(kernel["undivided_calls"], 1);
  }
}

TEST_P(GraphCapture, MeasuringOnAnotherThreadLeavesItAlone) {
  Options options;
  options.policy = BatchSizePolicy::kPowerOfTwo;
  CapturedStep step(GetParam(), options);
  step.Run();
  const long measured_before = step.program().interposer.process().kernels.measured();
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
  EXPECT_GT(step.program().interposer.process().kernels.measured(), measured_before);
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
