// Tests the sequences of calls with which frameworks ask for algorithms and run them, when only the
// caller limits workspace. What ucudnn reports must hold when the algorithm runs, in memory of
// exactly the reported size.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "layer.h"
#include "libraries.h"
#include "primed_store.h"
#include "protocol.h"
#include "queries.h"
#include "suites.h"

namespace ucudnn::test {
namespace {

class CallersLimit : public Protocol {};

// Returns the number of pieces in the fastest division of LayerProblem within `bytes`. By
// PrimeLayer's times, the fastest pieces are the largest equal pieces of algorithm 1 that fit.
// Returns 0 if none fit.
long FastestPieces(Operation operation, size_t bytes) {
  for (int images = kLayerImages; images > 0; images /= 2) {
    const Convolution piece(LayerProblem(operation, images));
    if (RealNeed(piece, 1).value_or(SIZE_MAX) <= bytes) return kLayerImages / images;
  }
  return 0;
}

TEST_F(CallersLimit, SizesAreRealBeforeAnythingIsFound) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
      EXPECT_EQ(ReportedNeed(convolution, algorithm), RealNeed(convolution, algorithm));
    }
  }
}

TEST_F(CallersLimit, EveryAnswerIsKept) { EveryAnswerIsKept(SIZE_MAX); }

TEST_F(CallersLimit, FindExDividesToFitTheCallersWorkspace) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    const auto told = FindEx(convolution, kTightBytes);
    const long pieces = FastestPieces(operation, kTightBytes);
    EXPECT_GE(pieces, 2);
    EXPECT_EQ(RunAndCompare(convolution, told.algorithm, told.workspace_bytes), pieces);
  }
}

TEST_F(CallersLimit, LargerWorkspaceLaterIsUsed) {
  Convolution convolution(LayerProblem(Operation::kForward));
  const auto small = FindEx(convolution, kTightBytes);
  const auto large = FindEx(convolution, 1 << 20);
  ASSERT_EQ(small.algorithm, 1);
  ASSERT_EQ(large.algorithm, 1);
  EXPECT_EQ(large.workspace_bytes, *RealNeed(convolution, 1));
  EXPECT_EQ(ReportedNeed(convolution, 1), large.workspace_bytes);
  EXPECT_EQ(RunAndCompare(convolution, 1, large.workspace_bytes), 1);
  EXPECT_EQ(RunAndCompare(convolution, 1, small.workspace_bytes),
            FastestPieces(Operation::kForward, kTightBytes));
}

TEST_F(CallersLimit, RequestedCountsAreThoseOfTheRealLibrary) {
  Convolution convolution(LayerProblem(Operation::kForward));
  for (const Question question : kQuestions)
    for (const int requested : {-1, 0}) {
      EXPECT_EQ(Ask(DropIn(), question, convolution, requested).status,
                Ask(Undivided(), question, convolution, requested).status);
    }
  int count = 0;
  cudnnConvolutionFwdAlgoPerf_t results[1];
  const cudnn::Descriptors& d = convolution.descriptors();
  for (const cudnn::Functions* library : {&DropIn(), &Undivided()}) {
    EXPECT_EQ(library->cudnnGetConvolutionForwardAlgorithm_v7(
                  convolution.handle(), d.x, d.w, d.convolution, d.y, 1, nullptr, results),
              CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(library->cudnnGetConvolutionForwardAlgorithm_v7(
                  convolution.handle(), d.x, d.w, d.convolution, d.y, 1, &count, nullptr),
              CUDNN_STATUS_BAD_PARAM);
  }
}

// Only algorithm 1 supports an identity activation, and the question does not say that an
// activation follows. So the workspace reported for algorithm 1 must suffice for pieces of only
// algorithm 1.
TEST_F(CallersLimit, IdentityActivationRunsInWhatWasReported) {
  ConvolutionProblem problem = LayerProblem(Operation::kForward, 12);
  for (const bool alone : {true, false}) {
    SCOPED_TRACE(alone ? "alone" : "never alone");
    // Measurements are stored with the math type of the call, which the answer may change.
    problem.math = alone ? MathType::kTensorOp : MathType::kTensorOpAllowConversion;
    PrimedStore store;
    store.Add(problem, {4, 8, 12}, [&](int algorithm, int size) -> double {
      if (algorithm > 1) return -1;
      const bool fast = (algorithm == 1) == (size == 8) && size != 12;
      return algorithm == 1 && size == 4 && !alone ? -1 : fast ? 1 : 100;
    });
    store.Write();
    Convolution asked(problem);
    const auto told = FindEx(asked, 1 << 20);
    ASSERT_EQ(told.status, CUDNN_STATUS_SUCCESS);
    problem.math = static_cast<MathType>(told.math);
    Convolution convolution(problem, Extra::kIdentity);
    ASSERT_EQ(told.algorithm, 1);
    EXPECT_EQ(told.workspace_bytes < *RealNeed(convolution, 1), alone);
    EXPECT_EQ(RunAndCompare(convolution, 1, told.workspace_bytes), alone ? 2 : 1);
  }
}

// With cudnn.benchmark and the legacy API, PyTorch asks for the sizes of all algorithms, searches
// in the largest workspace that it can allocate, and reuses the answer forever, on any thread.
TEST_F(CallersLimit, PyTorchBenchmark) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    size_t most = 0;
    for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
      const size_t need = ReportedNeed(convolution, algorithm).value_or(0);
      if (need <= 110000) most = std::max(most, need);  // as if no larger blocks were free
    }
    const auto told = FindEx(convolution, most);
    ASSERT_LE(told.workspace_bytes, most);
    convolution.FillIntegers(9);
    UseMath(convolution, told.math);
    const Bytes expected = convolution.Expected();
    const GuardedMemory workspace(told.workspace_bytes);
    std::thread autograd([&] {
      const OwnStream stream(cudaStreamDefault);
      const OwnHandle handle;
      EXPECT_EQ(cudnnSetStream(handle.get(), stream.get()), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(convolution.RunOn(handle.get(), DropIn(), told.algorithm, workspace.data(),
                                  told.workspace_bytes),
                CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    });
    autograd.join();
    convolution.ExpectOutput(expected, &workspace);
  }
}

// NVCaffe searches up to five times, until two answers agree, in a workspace that layers share.
TEST_F(CallersLimit, NvcaffeSearchesUntilAnswersRepeat) {
  for (const Operation operation : kOperations) {
    Convolution convolution(LayerProblem(operation));
    const auto first = FindEx(convolution, kTightBytes);
    for (int i = 0; i < 4; ++i) {
      const auto again = FindEx(convolution, kTightBytes);
      EXPECT_EQ(again.algorithm, first.algorithm);
      EXPECT_EQ(again.workspace_bytes, first.workspace_bytes);
      EXPECT_EQ(again.math, first.math);
    }
    EXPECT_EQ(ReportedNeed(convolution, first.algorithm), first.workspace_bytes);
    EXPECT_EQ(RunAndCompare(convolution, first.algorithm, kTightBytes),
              FastestPieces(operation, kTightBytes));
  }
}

// dlib keeps a layer's algorithm for other mini-batches, and asks again only for its workspace.
TEST_F(CallersLimit, DlibKeepsTheAlgorithmForOtherBatches) {
  for (const Operation operation : kOperations) {
    Convolution searched(LayerProblem(operation));
    const Answer answer = Ask(DropIn(), Question::kFind, searched, kAlgorithms);
    ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
    const int algorithm = answer.algorithms.at(0).algorithm;
    for (const int n : {32, 16, 5}) {
      Convolution convolution(LayerProblem(operation, n));
      const std::optional<size_t> need = ReportedNeed(convolution, algorithm);
      ASSERT_TRUE(need.has_value());
      RunAndCompare(convolution, algorithm, *need);
    }
  }
}

// darknet ignores the status of calls, and passes the largest layer's workspace to every layer.
TEST_F(CallersLimit, DarknetLendsOneWorkspaceToAllLayers) {
  for (const Operation operation : kOperations) {
    Convolution convolution(LayerProblem(operation));
    const Answer answer = Ask(DropIn(), Question::kGet, convolution, kAlgorithms);
    const auto fits = [](const cudnn::AlgorithmPerformance& told) {
      return told.workspace_bytes < (size_t{1} << 20) && told.status == CUDNN_STATUS_SUCCESS;
    };
    const auto told = std::find_if(answer.algorithms.begin(), answer.algorithms.end(), fits);
    ASSERT_NE(told, answer.algorithms.end()) << OperationName(operation) << ": nothing would run";
    RunAndCompare(convolution, told->algorithm, 1 << 20);
  }
}

TEST_F(CallersLimit, NeverAskedAndLessOrNoWorkspaceGivesTheResultOrTheRealError) {
  for (const Operation operation : kOperations)
    for (const int algorithm : {0, 1, 2, 3}) {
      Convolution convolution(LayerProblem(operation));
      const std::optional<size_t> need = RealNeed(convolution, algorithm);
      const Bytes expected = convolution.FillAndExpect(10);
      for (const size_t bytes : {need.value_or(0), need.value_or(1) - 1, size_t{64}, size_t{0}}) {
        if (bytes > (1 << 20)) continue;
        SCOPED_TRACE(std::string(OperationName(operation)) + " algorithm " +
                     std::to_string(algorithm) + " bytes " + std::to_string(bytes));
        const GuardedMemory workspace(bytes);
        const cudnnStatus_t real = convolution.Run(Undivided(), algorithm, workspace.data(), bytes);
        const Bytes undivided = convolution.TakeOutput();
        const cudnnStatus_t status = convolution.Run(DropIn(), algorithm, workspace.data(), bytes);
        const Bytes actual = convolution.TakeOutput();
        if (status == CUDNN_STATUS_SUCCESS) {
          EXPECT_TRUE(convolution.OutputEquals(expected, actual));
        } else {
          EXPECT_EQ(status, real);
        }
        // Pieces of algorithm 1 fit into less workspace than the undivided algorithm needs.
        const bool fits_in_pieces = algorithm == 1 && need && bytes == *need - 1;
        if (real == CUDNN_STATUS_SUCCESS || fits_in_pieces) {
          EXPECT_EQ(status, CUDNN_STATUS_SUCCESS);
        }
        EXPECT_TRUE(workspace.GuardsAreIntact());
        EXPECT_TRUE(convolution.NothingElseWasWritten());
      }
    }
}

TEST_F(CallersLimit, BytesWithoutAPointerAreNoWorkspace) {
  Convolution convolution(LayerProblem(Operation::kForward));
  const Bytes expected = convolution.FillAndExpect(11);
  EXPECT_EQ(convolution.Run(DropIn(), 0, nullptr, 1 << 20), CUDNN_STATUS_SUCCESS);
  EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
}

TEST_F(CallersLimit, BadCallsGetTheRealError) {
  Convolution convolution(LayerProblem(Operation::kForward));
  const cudnn::Descriptors& d = convolution.descriptors();
  const float one = 1;
  void* const x = convolution.x.memory.data();
  for (const int algorithm : {-1, 3, kAlgorithms, 1000}) {
    EXPECT_EQ(convolution.Run(DropIn(), algorithm, nullptr, 0),
              convolution.Run(Undivided(), algorithm, nullptr, 0));
    size_t bytes = 0;
    const auto number = static_cast<cudnnConvolutionFwdAlgo_t>(algorithm);
    EXPECT_EQ(DropIn().cudnnGetConvolutionForwardWorkspaceSize(convolution.handle(), d.x, d.w,
                                                               d.convolution, d.y, number, &bytes),
              Undivided().cudnnGetConvolutionForwardWorkspaceSize(
                  convolution.handle(), d.x, d.w, d.convolution, d.y, number, &bytes));
  }
  const auto call = [&](const cudnn::Functions& library, cudnnHandle_t handle, const void* alpha,
                        cudnnTensorDescriptor_t x_descriptor, const void* image) {
    return library.cudnnConvolutionForward(handle, alpha, x_descriptor, image, d.w,
                                           convolution.w.memory.data(), d.convolution,
                                           CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0,
                                           &one, d.y, convolution.y.memory.data());
  };
  const cudnnHandle_t handle = convolution.handle();
  EXPECT_EQ(call(DropIn(), nullptr, &one, d.x, x), call(Undivided(), nullptr, &one, d.x, x));
  EXPECT_EQ(call(DropIn(), handle, nullptr, d.x, x), call(Undivided(), handle, nullptr, d.x, x));
  EXPECT_EQ(call(DropIn(), handle, &one, nullptr, x), call(Undivided(), handle, &one, nullptr, x));
  EXPECT_EQ(call(DropIn(), handle, &one, d.x, nullptr),
            call(Undivided(), handle, &one, d.x, nullptr));
}

// For each group, Caffe makes descriptors with the strides of the whole tensors, and pointers to
// the group's part. These pointers may be aligned only to one element, which only algorithm 0
// supports.
TEST_F(CallersLimit, PointersLessAlignedThanAnEngineNeeds) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution whole(LayerProblem(operation));
    whole.FillIntegers(12);
    const auto run = [&](const cudnn::Functions& library, void* workspace, size_t bytes) {
      // With one image less, the shifted pointers stay inside of the memory of `whole`.
      Convolution part(LayerProblem(operation, kLayerImages - 1));
      cudnn::ConvolutionCall call;
      const float one = 1, zero = 0;
      call.operation = operation;
      call.handle = part.handle();
      call.descriptors = part.descriptors();
      call.alpha = &one;
      call.beta = &zero;
      const auto further = [](Operand& operand) {
        return static_cast<char*>(operand.memory.data()) + sizeof(float);
      };
      call.x = further(whole.x);
      call.w = whole.w.memory.data();
      call.y = further(whole.y);
      call.workspace = workspace;
      call.workspace_bytes = bytes;
      EXPECT_EQ(cudnn::Convolve(library, call), CUDNN_STATUS_SUCCESS);
      return whole.TakeOutput();
    };
    const GuardedMemory workspace(1 << 20);
    const Bytes expected = run(Undivided(), nullptr, 0);
    EXPECT_EQ(run(DropIn(), workspace.data(), workspace.bytes()), expected);
    EXPECT_EQ(run(DropIn(), nullptr, 0), expected);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  return ucudnn::test::RunSuites(argc, argv, {{"CallersLimit", {{"UCUDNN_TUNE", "off"}}}});
}
