// Tests captures into CUDA graphs. Nothing is measured, allocated or synchronised inside a capture,
// replays compute the result of the undivided call, and measuring on one thread does not break a
// capture on another thread.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>

#include "layer.h"
#include "libraries.h"
#include "protocol.h"
#include "queries.h"
#include "report_file.h"
#include "shim/host/hostgpu.h"
#include "suites.h"

namespace ucudnn::test {
namespace {

// An algorithm that the drop-in gave the program before a capture.
struct GivenAlgorithm {
  int algorithm = 0;
  size_t bytes = 0;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

class Captured : public testing::Test {
 protected:
  void TearDown() override {
    for (cudaGraphExec_t exec : execs_) EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  }

  // Asks FindEx for algorithms within `lent` bytes. Returns the first answer with algorithm 0 or 1,
  // which are exact on integers.
  static GivenAlgorithm FindEx(Convolution& convolution, size_t lent) {
    const GuardedMemory workspace(lent);
    const Answer answer =
        Ask(DropIn(), Question::kFindEx, convolution, kAlgorithms, workspace.data(), lent);
    EXPECT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
    const cudnn::AlgorithmPerformance* const told = answer.FirstUpTo(1);
    if (told != nullptr) return {told->algorithm, told->workspace_bytes, told->math};
    ADD_FAILURE() << "nothing direct was found";
    return {};
  }

  // Captures `calls` on stream_ and checks that they only enqueue work. Sets `convolutions` to the
  // number of convolutions.
  cudaGraphExec_t Record(const std::function<void()>& calls, long* convolutions = nullptr) {
    // `calls` must not wait, create anything on the device, or make a cuDNN handle.
    const std::vector<const char*> forbidden = {"alloc", "pool",        "stream",
                                                "event", "synchronize", "handle"};
    for (const char* site : forbidden) hostgpuInjectFault(site, 0);
    ConvolutionsRun();
    EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
    calls();
    for (const char* site : forbidden) EXPECT_EQ(hostgpuFaultCount(site), 0) << site;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    size_t nodes = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
    const long run = ConvolutionsRun();
    EXPECT_EQ(static_cast<long>(nodes), run) << "a convolution ran beside the capture";
    if (convolutions != nullptr) *convolutions = run;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    execs_.push_back(exec);
    return exec;
  }

  static cudnnStatus_t Run(Convolution& convolution, const GivenAlgorithm& told,
                           const GuardedMemory& workspace, const Scales& scales = {}) {
    return convolution.Run(DropIn(), told.algorithm, workspace.data(), told.bytes, scales);
  }

  // Replays `exec`, the graph of one call of `convolution`, several times on new contents. Compares
  // each result with the undivided call's.
  void ReplaysAreUndivided(cudaGraphExec_t exec, Convolution& convolution,
                           const Scales& scales = {}) {
    std::mt19937 random(31);
    for (int replay = 0; replay < 3; ++replay) {
      convolution.FillIntegers(random);
      EXPECT_EQ(cudnnSetStream(convolution.handle(), nullptr), CUDNN_STATUS_SUCCESS);
      const Bytes expected = convolution.Expected(scales);
      EXPECT_EQ(cudnnSetStream(convolution.handle(), stream_), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      EXPECT_EQ(cudaGraphLaunch(exec, other_), cudaSuccess);
      EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()))
          << "replay " << replay;
      EXPECT_TRUE(convolution.NothingElseWasWritten());
    }
  }

  // Asks for an algorithm, runs it `before` times outside of a capture, captures one call, and
  // replays the graph. Counts convolutions: `outside` gets the number in a call outside of the
  // capture, and `inside` gets the number in the captured call.
  void AskRunAndCapture(Operation operation, int before, const Scales& scales, long* outside,
                        long* inside) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    convolution.FillIntegers(30);
    const GivenAlgorithm told = FindEx(convolution, kTightBytes);
    EXPECT_LE(told.bytes, kTightBytes);
    UseMath(convolution, told.math);
    const GuardedMemory workspace(told.bytes);
    EXPECT_EQ(cudnnSetStream(convolution.handle(), stream_), CUDNN_STATUS_SUCCESS);
    for (int i = 0; i < before; ++i) {
      ConvolutionsRun();
      EXPECT_EQ(Run(convolution, told, workspace, scales), CUDNN_STATUS_SUCCESS);
      *outside = ConvolutionsRun();
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const cudaGraphExec_t exec =
        Record([&] { EXPECT_EQ(Run(convolution, told, workspace, scales), CUDNN_STATUS_SUCCESS); },
               inside);
    ReplaysAreUndivided(exec, convolution, scales);
    EXPECT_TRUE(workspace.GuardsAreIntact());
  }

  const OwnStream own_stream_, own_other_;
  const cudaStream_t stream_ = own_stream_.get(), other_ = own_other_.get();
  std::vector<cudaGraphExec_t> execs_;
};

const Scales kScales[] = {{1, 0}, {2, 1}};

// --- The store says that, within the limit, pieces are the fastest -------------------------------
class Planned : public Captured {
 protected:
  static void SetUpTestSuite() { PrimeLayer(); }
};

TEST_F(Planned, WhatRanOutsideIsCapturedAsItRan) {
  for (const Operation operation : kOperations)
    for (const Scales& scales : kScales) {
      long outside = 0, inside = 0;
      AskRunAndCapture(operation, 2, scales, &outside, &inside);
      EXPECT_GT(outside, 1) << "the plan is divided";
      EXPECT_EQ(inside, outside);
    }
}

TEST_F(Planned, CallsOnSeveralStreamsOfOneCaptureReplayTogether) {
  Convolution forward(LayerProblem(Operation::kForward));
  Convolution gradient(LayerProblem(Operation::kBackwardFilter));
  std::mt19937 random(32);
  forward.FillIntegers(random);
  gradient.FillIntegers(random);
  const GivenAlgorithm told_forward = FindEx(forward, kTightBytes),
                       told = FindEx(gradient, kTightBytes);
  const GuardedMemory first(told_forward.bytes), second(told.bytes);
  const Bytes expected_forward = forward.Expected(), expected = gradient.Expected();
  cudaEvent_t fork = nullptr, join = nullptr;
  ASSERT_EQ(cudaEventCreate(&fork), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&join), cudaSuccess);
  EXPECT_EQ(cudnnSetStream(forward.handle(), stream_), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnSetStream(gradient.handle(), other_), CUDNN_STATUS_SUCCESS);
  const cudaGraphExec_t exec = Record([&] {
    EXPECT_EQ(cudaEventRecord(fork, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(other_, fork, 0), cudaSuccess);
    // The stream other_ joins the capture only because it waits for the event `fork`.
    EXPECT_EQ(Run(gradient, told, second), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(Run(forward, told_forward, first), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudaEventRecord(join, other_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(stream_, join, 0), cudaSuccess);
  });
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_TRUE(forward.OutputEquals(expected_forward, forward.TakeOutput()));
  EXPECT_TRUE(gradient.OutputEquals(expected, gradient.TakeOutput()));
  EXPECT_TRUE(first.GuardsAreIntact() && second.GuardsAreIntact());
  EXPECT_EQ(cudaEventDestroy(fork), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(join), cudaSuccess);
}

TEST_F(Planned, TwoGraphsReplayAtOnce) {
  struct Layer {
    explicit Layer(Operation operation) : convolution(LayerProblem(operation)) {}
    Convolution convolution;
    std::unique_ptr<GuardedMemory> workspace;
    Bytes expected;
    cudaGraphExec_t exec = nullptr;
  };
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Layer one(operation), two(operation);
    std::mt19937 random(33);
    for (Layer* layer : {&one, &two}) {
      Convolution& convolution = layer->convolution;
      convolution.FillIntegers(random);
      const GivenAlgorithm told = FindEx(convolution, kTightBytes);
      layer->workspace = std::make_unique<GuardedMemory>(told.bytes);
      layer->expected = convolution.Expected();
      EXPECT_EQ(cudnnSetStream(convolution.handle(), stream_), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(Run(convolution, told, *layer->workspace), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      layer->exec = Record(
          [&] { EXPECT_EQ(Run(convolution, told, *layer->workspace), CUDNN_STATUS_SUCCESS); });
      convolution.SpoilOutput();
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(cudaGraphLaunch(one.exec, stream_), cudaSuccess);
      EXPECT_EQ(cudaGraphLaunch(two.exec, other_), cudaSuccess);
    }
    for (Layer* layer : {&one, &two}) {
      Convolution& convolution = layer->convolution;
      EXPECT_TRUE(convolution.OutputEquals(layer->expected, convolution.TakeOutput()));
      EXPECT_TRUE(layer->workspace->GuardsAreIntact());
    }
  }
}

// A graph keeps its memory for as long as it exists, also after the handle is destroyed.
TEST_F(Planned, AReplayOutlivesTheHandle) {
  Convolution convolution(LayerProblem(Operation::kForward));
  convolution.FillIntegers(34);
  const GivenAlgorithm told = FindEx(convolution, kTightBytes);
  const GuardedMemory workspace(told.bytes);
  const Bytes expected = convolution.Expected();
  cudnnHandle_t handle = nullptr;
  ASSERT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnSetStream(handle, stream_), CUDNN_STATUS_SUCCESS);
  const auto run = [&] {
    return convolution.RunOn(handle, DropIn(), told.algorithm, workspace.data(), told.bytes);
  };
  EXPECT_EQ(run(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const cudaGraphExec_t exec = Record([&] { EXPECT_EQ(run(), CUDNN_STATUS_SUCCESS); });
  EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
  convolution.SpoilOutput();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, other_), cudaSuccess);
  EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
}

// --- The same plans, but the kernels never ran outside of a capture ------------------------------
class NeverRan : public Captured {
 protected:
  static void SetUpTestSuite() { PrimeLayer(); }
};

TEST_F(NeverRan, PiecesAreNotCapturedButWhatKeepsThePromiseIs) {
  for (const Operation operation : kOperations)
    for (const Scales& scales : kScales) {
      long outside = 0, inside = 0;
      AskRunAndCapture(operation, 0, scales, &outside, &inside);
      EXPECT_EQ(inside, 1);
    }
}

// --- Nothing was asked or planned ----------------------------------------------------------------
class WithoutPlan : public Captured {
 protected:
  // Captures calls, each of which is the first one with its algorithm and its handle.
  void CaptureFirst() {
    for (const Operation operation : kOperations)
      for (const int algorithm : {0, 1}) {
        SCOPED_TRACE(std::string(OperationName(operation)) + " algorithm " +
                     std::to_string(algorithm));
        Convolution convolution(LayerProblem(operation));
        convolution.FillIntegers(35);
        const GivenAlgorithm told{algorithm, RealNeed(convolution, algorithm).value()};
        const GuardedMemory workspace(told.bytes);
        EXPECT_EQ(cudnnSetStream(convolution.handle(), stream_), CUDNN_STATUS_SUCCESS);
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        long inside = 0;
        const cudaGraphExec_t exec = Record(
            [&] { EXPECT_EQ(Run(convolution, told, workspace), CUDNN_STATUS_SUCCESS); }, &inside);
        EXPECT_EQ(inside, 1);
        ReplaysAreUndivided(exec, convolution);
        EXPECT_TRUE(workspace.GuardsAreIntact());
      }
  }
  static long MeasuredSoFar() {
    const nlohmann::json report = ReadReport();
    return report.is_null() ? 0 : report["measured"].get<long>();
  }
};
class WithoutTuning : public WithoutPlan {};

TEST_F(WithoutPlan, TheCallersOwnCallIsCapturedAndNothingMeasured) {
  CaptureFirst();
  EXPECT_EQ(MeasuredSoFar(), 0);
}

TEST_F(WithoutPlan, WhatACaptureLeftUnmeasuredIsMeasuredLater) {
  Convolution convolution(LayerProblem(Operation::kForward, 8));
  convolution.FillIntegers(36);
  const GivenAlgorithm told{1, RealNeed(convolution, 1).value()};
  const GuardedMemory workspace(told.bytes);
  EXPECT_EQ(cudnnSetStream(convolution.handle(), stream_), CUDNN_STATUS_SUCCESS);
  Record([&] { EXPECT_EQ(Run(convolution, told, workspace), CUDNN_STATUS_SUCCESS); });
  EXPECT_EQ(MeasuredSoFar(), 0);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Run(convolution, told, workspace), CUDNN_STATUS_SUCCESS);
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_GT(MeasuredSoFar(), 0);
}

// --- Measured at the third call ------------------------------------------------------------------
class AtTheThirdCall : public WithoutPlan {};

// The kernel's third call is in a capture and must not measure. The next call outside of a capture
// measures instead.
TEST_F(AtTheThirdCall, IsPutOffByACaptureToTheNextCallOutside) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    const Bytes expected = convolution.FillAndExpect(39);
    const GivenAlgorithm told{1, RealNeed(convolution, 1).value()};
    const GuardedMemory workspace(told.bytes);
    EXPECT_EQ(cudnnSetStream(convolution.handle(), stream_), CUDNN_STATUS_SUCCESS);
    const long before = MeasuredSoFar();
    for (int call = 0; call < 2; ++call) {
      EXPECT_EQ(Run(convolution, told, workspace), CUDNN_STATUS_SUCCESS);
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    long inside = 0;
    const cudaGraphExec_t exec = Record(
        [&] {
          for (int call = 0; call < 2; ++call) {
            EXPECT_EQ(Run(convolution, told, workspace), CUDNN_STATUS_SUCCESS);
          }
        },
        &inside);
    EXPECT_EQ(inside, 2) << "as the caller asked";
    EXPECT_EQ(MeasuredSoFar(), before);
    for (int call = 0; call < 4; ++call) {
      convolution.SpoilOutput();
      EXPECT_EQ(Run(convolution, told, workspace), CUDNN_STATUS_SUCCESS);
      EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
    }
    EXPECT_GT(MeasuredSoFar(), before);
    ReplaysAreUndivided(exec, convolution);
    EXPECT_TRUE(workspace.GuardsAreIntact());
  }
}

TEST_F(WithoutTuning, TheCallersOwnCallIsCaptured) { CaptureFirst(); }

// --- A limit, and nothing was measured -----------------------------------------------------------
class ReducedPromise : public Captured {};

TEST_F(ReducedPromise, TheLimitHoldsInsideACapture) {
  for (const Operation operation : kOperations)
    for (const Question question : kQuestions) {
      SCOPED_TRACE(std::string(OperationName(operation)) + " question " +
                   std::to_string(static_cast<int>(question)));
      Convolution convolution(LayerProblem(operation));
      convolution.FillIntegers(37);
      const GuardedMemory lent(question == Question::kFindEx ? kTightBytes : 0);
      const Answer answer =
          Ask(DropIn(), question, convolution, kAlgorithms, lent.data(), lent.bytes());
      ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
      int captured = 0;
      for (const auto& result : answer.algorithms) {
        if (result.status != CUDNN_STATUS_SUCCESS || result.algorithm > 1) continue;
        EXPECT_LE(result.workspace_bytes, kTightBytes);
        const GivenAlgorithm told{result.algorithm, result.workspace_bytes};
        const GuardedMemory workspace(told.bytes);
        EXPECT_EQ(cudnnSetStream(convolution.handle(), stream_), CUDNN_STATUS_SUCCESS);
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        const cudaGraphExec_t exec =
            Record([&] { EXPECT_EQ(Run(convolution, told, workspace), CUDNN_STATUS_SUCCESS); });
        ReplaysAreUndivided(exec, convolution);
        EXPECT_TRUE(workspace.GuardsAreIntact());
        EXPECT_EQ(cudnnSetStream(convolution.handle(), nullptr), CUDNN_STATUS_SUCCESS);
        ++captured;
      }
      EXPECT_GE(captured, 1);
    }
}

// --- Measuring while another thread captures ----------------------------------------------------
class Measuring : public Captured {};

TEST_F(Measuring, OnAnotherThreadLeavesTheCaptureValid) {
  int images = 4;
  for (const cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
        cudaStreamCaptureModeRelaxed}) {
    SCOPED_TRACE("mode " + std::to_string(static_cast<int>(mode)));
    // Everything that allocates or copies happens before the capture begins.
    Convolution captured(LayerProblem(Operation::kForward));
    Convolution measured(LayerProblem(Operation::kBackwardFilter, images++));
    std::mt19937 random(38);
    captured.FillIntegers(random);
    measured.FillIntegers(random);
    const GivenAlgorithm told{0, RealNeed(captured, 0).value()};
    const GuardedMemory workspace(told.bytes), lent(kTightBytes);
    const Bytes expected = captured.Expected(), expected_gradient = measured.Expected();
    const OwnStream stream;
    EXPECT_EQ(cudnnSetStream(captured.handle(), stream_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetStream(measured.handle(), stream.get()), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);

    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
    EXPECT_EQ(Run(captured, told, workspace), CUDNN_STATUS_SUCCESS);
    const nlohmann::json before = ReadReport();
    std::thread([&] {
      const Answer answer =
          Ask(DropIn(), Question::kFindEx, measured, kAlgorithms, lent.data(), lent.bytes());
      EXPECT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
      const cudnn::AlgorithmPerformance* const direct = answer.FirstUpTo(1);
      ASSERT_NE(direct, nullptr);
      EXPECT_EQ(measured.Run(DropIn(), direct->algorithm, lent.data(), lent.bytes()),
                CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    }).join();
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    EXPECT_EQ(Run(captured, told, workspace), CUDNN_STATUS_SUCCESS);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);

    const long measured_before = before.is_null() ? 0 : before["measured"].get<long>();
    EXPECT_GT(ReadReport()["measured"], measured_before) << "the other thread measured";
    EXPECT_TRUE(measured.OutputEquals(expected_gradient, measured.TakeOutput()));
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    execs_.push_back(exec);
    EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    EXPECT_TRUE(captured.OutputEquals(expected, captured.TakeOutput()));
  }
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  const std::string tight = std::to_string(ucudnn::test::kTightBytes);
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"Planned", {{"UCUDNN_TUNE", "off"}}},
       {"NeverRan", {{"UCUDNN_TUNE", "off"}}},
       {"WithoutPlan", {{"UCUDNN_TUNE", "first"}}},
       {"AtTheThirdCall", {{"UCUDNN_TUNE", "after:2"}, {"UCUDNN_WORKSPACE_LIMIT", tight}}},
       {"WithoutTuning", {{"UCUDNN_TUNE", "off"}}},
       {"ReducedPromise", {{"UCUDNN_TUNE", "off"}, {"UCUDNN_WORKSPACE_LIMIT", tight}}},
       {"Measuring", {{"UCUDNN_TUNE", "first"}}}});
}
