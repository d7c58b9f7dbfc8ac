// How frameworks ask for algorithms and run them, each in its own order of calls: what ucudnn tells
// them must be what executing it does, in memory of exactly the size that was reported.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "cudnn/legacy_engines.h"
#include "layer.h"
#include "libraries.h"
#include "queries.h"
#include "report_file.h"
#include "suites.h"

namespace ucudnn::test {
namespace {

class Protocol : public testing::Test {
 protected:
  static void SetUpTestSuite() { PrimeLayer(); }

  // Runs `algorithm` in exactly `bytes` of memory and compares; the number of pieces.
  static long RunAndCompare(Convolution& convolution, int algorithm, size_t bytes,
                            const Scales& scales = {}) {
    std::mt19937 random(7);
    convolution.FillIntegers(random);
    const Bytes expected = convolution.Expected(scales);
    const GuardedMemory workspace(bytes);
    ConvolutionsRun();
    EXPECT_EQ(convolution.Run(DropIn(), algorithm, workspace.data(), bytes, scales),
              CUDNN_STATUS_SUCCESS);
    const long pieces = ConvolutionsRun();
    EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
    EXPECT_TRUE(convolution.NothingElseWasWritten());
    EXPECT_TRUE(workspace.GuardsAreIntact());
    return pieces;
  }

  static void UseMath(const Convolution& convolution, cudnnMathType_t math) {
    EXPECT_EQ(cudnnSetConvolutionMathType(convolution.descriptors().convolution, math),
              CUDNN_STATUS_SUCCESS);
  }

  // Every algorithm of every answer, run in what was reported for it.
  static void EveryAnswerIsKept(size_t limit) {
    for (const Operation operation : kOperations)
      for (const Question question : kQuestions)
        for (const int requested : {1, 2, 20})
          for (const size_t lent : {size_t{0}, size_t{60000}, kTightBytes, size_t{1} << 24}) {
            if (question != Question::kFindEx && lent != 0) continue;
            SCOPED_TRACE(std::string(OperationName(operation)) + " question " +
                         std::to_string(static_cast<int>(question)) + " lent " +
                         std::to_string(lent));
            Convolution convolution(LayerProblem(operation));
            std::mt19937 random(8);
            convolution.FillIntegers(random);
            const GuardedMemory workspace(lent);
            const Answer answer =
                Ask(DropIn(), question, convolution, requested, workspace.data(), lent);
            ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
            ASSERT_FALSE(answer.algorithms.empty());
            EXPECT_LE(answer.algorithms.size(), static_cast<size_t>(requested));
            EXPECT_TRUE(convolution.output().IsUnchanged());
            for (const cudnn::AlgorithmPerformance& told : answer.algorithms) {
              if (told.status != CUDNN_STATUS_SUCCESS) continue;
              if (question == Question::kFindEx) {
                EXPECT_LE(told.workspace_bytes, lent);
              }
              EXPECT_LE(told.workspace_bytes, limit);
              if (IsDirect(operation, told.algorithm)) {
                SCOPED_TRACE("algorithm " + std::to_string(told.algorithm));
                UseMath(convolution, told.math);
                EXPECT_EQ(ReportedNeed(convolution, told.algorithm), told.workspace_bytes);
                const long pieces =
                    RunAndCompare(convolution, told.algorithm, told.workspace_bytes);
                ExpectReported(convolution, told, pieces);
              }
            }
            if (HasFailure()) return;
          }
  }

  // Whole numbers are exact in such an algorithm.
  static bool IsDirect(Operation operation, int algorithm) {
    return cudnn::LegacyNumericClass(operation, algorithm) == planning::NumericClass::kDirect;
  }

  // The report holds a plan of so many pieces inside what the caller was told, of engines that
  // are as exact and deterministic.
  static void ExpectReported(const Convolution& convolution,
                             const cudnn::AlgorithmPerformance& told, long pieces) {
    const Operation operation = convolution.problem().operation;
    const auto kernels = KernelsOf(ReadReport(), convolution.problem());
    const bool found = std::any_of(kernels.begin(), kernels.end(), [&](const auto& kernel) {
      if (kernel["workspace_bytes"] > told.workspace_bytes || Pieces(kernel) != pieces) {
        return false;
      }
      for (const std::string& name : Engines(kernel)) {
        const int algorithm = cudnn::ParseLegacyEngine(name)->algorithm;
        const bool random = algorithm == 0 && operation != Operation::kForward;
        if (random && told.determinism == CUDNN_DETERMINISTIC) return false;
        if (!IsDirect(operation, algorithm)) return false;
      }
      return true;
    });
    EXPECT_TRUE(found) << "algorithm " << told.algorithm << " in " << pieces
                       << " pieces: " << ReadReport().dump(1);
  }

  // The first result of FindEx with `lent` bytes.
  static cudnn::AlgorithmPerformance FindEx(Convolution& convolution, size_t lent) {
    const GuardedMemory workspace(lent);
    const Answer answer = Ask(DropIn(), Question::kFindEx, convolution, 1, workspace.data(), lent);
    EXPECT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(answer.algorithms.size(), 1u);
    return answer.algorithms.empty() ? cudnn::AlgorithmPerformance{} : answer.algorithms[0];
  }
};

// --- Nothing limits but the caller ---------------------------------------------------------------
class CallersLimit : public Protocol {};

TEST_F(CallersLimit, SizesAreGenuineBeforeAnythingIsFound) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
      EXPECT_EQ(ReportedNeed(convolution, algorithm), GenuineNeed(convolution, algorithm));
    }
  }
}

TEST_F(CallersLimit, EveryAnswerIsKept) { EveryAnswerIsKept(SIZE_MAX); }

TEST_F(CallersLimit, FindExDividesToFitTheCallersWorkspace) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    const auto told = FindEx(convolution, kTightBytes);
    EXPECT_GE(RunAndCompare(convolution, told.algorithm, told.workspace_bytes), 2);
  }
}

TEST_F(CallersLimit, LargerWorkspaceLaterIsUsed) {
  Convolution convolution(LayerProblem(Operation::kForward));
  const auto small = FindEx(convolution, kTightBytes);
  const auto large = FindEx(convolution, 1 << 20);
  ASSERT_EQ(small.algorithm, 1);
  ASSERT_EQ(large.algorithm, 1);
  EXPECT_EQ(large.workspace_bytes, *GenuineNeed(convolution, 1));
  EXPECT_EQ(ReportedNeed(convolution, 1), large.workspace_bytes);
  EXPECT_EQ(RunAndCompare(convolution, 1, large.workspace_bytes), 1);
  EXPECT_GE(RunAndCompare(convolution, 1, small.workspace_bytes), 2);
}

TEST_F(CallersLimit, RequestedCountsAreThoseOfTheGenuineLibrary) {
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

// PyTorch's version-7 path with cudnn.benchmark: sizes of all algorithms, a search in the largest,
// and the answer cached for ever, on whatever thread comes along.
TEST_F(CallersLimit, PyTorchBenchmark) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    size_t most = 0;
    for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
      const size_t need = ReportedNeed(convolution, algorithm).value_or(0);
      if (need <= 110000) most = std::max(most, need);  // "the largest free block"
    }
    const auto told = FindEx(convolution, most);
    ASSERT_LE(told.workspace_bytes, most);
    std::mt19937 random(9);
    convolution.FillIntegers(random);
    UseMath(convolution, told.math);
    const Bytes expected = convolution.Expected();
    const GuardedMemory workspace(told.workspace_bytes);
    std::thread autograd([&] {
      cudnnHandle_t handle = nullptr;
      EXPECT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
      cudaStream_t stream = nullptr;
      EXPECT_EQ(cudaStreamCreate(&stream), cudaSuccess);
      EXPECT_EQ(cudnnSetStream(handle, stream), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(convolution.RunOn(handle, DropIn(), told.algorithm, workspace.data(),
                                  told.workspace_bytes),
                CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    });
    autograd.join();
    EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
    EXPECT_TRUE(workspace.GuardsAreIntact());
  }
}

// NVCaffe searches up to five times, until the answers repeat, in a workspace it shares.
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
    RunAndCompare(convolution, first.algorithm, kTightBytes);
  }
}

// dlib keeps the algorithm for a layer and asks its workspace again for other mini-batches.
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

// darknet looks at no status, and lends every layer the largest layer's workspace.
TEST_F(CallersLimit, DarknetLendsOneWorkspaceToAllLayers) {
  for (const Operation operation : kOperations) {
    Convolution convolution(LayerProblem(operation));
    const Answer answer = Ask(DropIn(), Question::kGet, convolution, kAlgorithms);
    for (const auto& told : answer.algorithms) {
      if (told.workspace_bytes < (size_t{1} << 20) && told.status == CUDNN_STATUS_SUCCESS) {
        RunAndCompare(convolution, told.algorithm, 1 << 20);
        break;
      }
    }
  }
}

TEST_F(CallersLimit, NeverAskedAndLessOrNoWorkspaceGivesTheResultOrTheGenuineError) {
  for (const Operation operation : kOperations)
    for (const int algorithm : {0, 1, 2, 3}) {
      Convolution convolution(LayerProblem(operation));
      const std::optional<size_t> need = GenuineNeed(convolution, algorithm);
      std::mt19937 random(10);
      convolution.FillIntegers(random);
      const Bytes expected = convolution.Expected();
      for (const size_t bytes : {need.value_or(0), need.value_or(1) - 1, size_t{64}, size_t{0}}) {
        if (bytes > (1 << 20)) continue;
        SCOPED_TRACE(std::string(OperationName(operation)) + " algorithm " +
                     std::to_string(algorithm) + " bytes " + std::to_string(bytes));
        const GuardedMemory workspace(bytes);
        const cudnnStatus_t genuine =
            convolution.Run(Undivided(), algorithm, workspace.data(), bytes);
        const Bytes undivided = convolution.TakeOutput();
        const cudnnStatus_t status = convolution.Run(DropIn(), algorithm, workspace.data(), bytes);
        const Bytes actual = convolution.TakeOutput();
        if (status == CUDNN_STATUS_SUCCESS) {
          EXPECT_TRUE(convolution.OutputEquals(expected, actual));
        } else {
          EXPECT_EQ(status, genuine);
        }
        if (genuine == CUDNN_STATUS_SUCCESS) {
          EXPECT_EQ(status, genuine);
        }
        EXPECT_TRUE(workspace.GuardsAreIntact());
        EXPECT_TRUE(convolution.NothingElseWasWritten());
      }
    }
}

TEST_F(CallersLimit, BytesWithoutAPointerAreNoWorkspace) {
  Convolution convolution(LayerProblem(Operation::kForward));
  std::mt19937 random(11);
  convolution.FillIntegers(random);
  const Bytes expected = convolution.Expected();
  EXPECT_EQ(convolution.Run(DropIn(), 0, nullptr, 1 << 20), CUDNN_STATUS_SUCCESS);
  EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
}

TEST_F(CallersLimit, BadCallsGetTheGenuineError) {
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

// Caffe gives every group a part of the tensors: strides of the whole, pointers of the part. Parts
// begin where their elements do, and only algorithm 0 takes such pointers.
TEST_F(CallersLimit, PointersLessAlignedThanAnEngineNeeds) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution whole(LayerProblem(operation));
    std::mt19937 random(12);
    whole.FillIntegers(random);
    const auto run = [&](const cudnn::Functions& library, void* workspace, size_t bytes) {
      // One image less makes room.
      Convolution part(LayerProblem(operation, kLayerImages - 1));
      cudnn::LegacyCall call;
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

// --- A limit of the user's -----------------------------------------------------------------------
class UsersLimit : public Protocol {};

// PyTorch's deterministic mode takes algorithm 1 without a question but its size. The first of its
// suite: the report then holds its kernels alone.
TEST_F(UsersLimit, HardCodedAlgorithmStaysDirectAndDeterministic) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    const size_t need = ReportedNeed(convolution, 1).value();
    // Without a deterministic engine that fits undivided, the genuine need is what is told.
    if (operation == Operation::kForward) {
      EXPECT_LE(need, kTightBytes);
    } else {
      EXPECT_EQ(need, *GenuineNeed(convolution, 1));
    }
    RunAndCompare(convolution, 1, need);
    for (const auto& kernel : KernelsOf(ReadReport(), convolution.problem())) {
      if (kernel["limit_bytes"] != std::min(need, kTightBytes)) continue;
      for (const std::string& engine : Engines(kernel)) {
        EXPECT_TRUE(engine == "legacy:1" || (operation == Operation::kForward &&
                                             (engine == "legacy:0" || engine == "legacy:2")))
            << engine;
      }
    }
  }
}

// Its size is asked for like a plain convolution's, and only its one algorithm can keep the
// promise.
TEST_F(UsersLimit, IdentityActivationRunsInWhatWasToldForItsAlgorithm) {
  Convolution convolution(LayerProblem(Operation::kForward), Extra::kIdentity);
  const size_t need = ReportedNeed(convolution, 1).value();
  EXPECT_LE(need, kTightBytes);
  EXPECT_GT(*GenuineNeed(convolution, 1), kTightBytes);
  EXPECT_GE(RunAndCompare(convolution, 1, need), 2);
}

TEST_F(UsersLimit, EveryAnswerIsKept) { EveryAnswerIsKept(kTightBytes); }

TEST_F(UsersLimit, NothingFasterIsPromisedAsDeterministicThanIs) {
  for (const Operation operation : {Operation::kBackwardData, Operation::kBackwardFilter}) {
    Convolution convolution(LayerProblem(operation));
    const Answer answer = Ask(DropIn(), Question::kFind, convolution, kAlgorithms);
    for (const auto& told : answer.algorithms) {
      if (told.algorithm != 0) continue;
      EXPECT_EQ(told.determinism, CUDNN_NON_DETERMINISTIC);
    }
  }
}

// Caffe: one algorithm per layer, its size asked for apart, one allocation cut into a slice per
// handle, and both gradients of a layer under way at once; the filter's adds to what is there.
TEST_F(UsersLimit, CaffeRunsBothGradientsAtOnceInSlicesOfOneAllocation) {
  Convolution data(LayerProblem(Operation::kBackwardData));
  Convolution filter(LayerProblem(Operation::kBackwardFilter));
  Convolution forward(LayerProblem(Operation::kForward));
  std::vector<Convolution*> layers = {&forward, &filter, &data};
  std::vector<int> algorithms;
  size_t slice = 0;
  for (Convolution* layer : layers) {
    const Answer answer = Ask(DropIn(), Question::kGet, *layer, kAlgorithms);
    int algorithm = -1;
    for (const auto& told : answer.algorithms) {
      if (told.status != CUDNN_STATUS_SUCCESS || told.workspace_bytes > 8 << 20) continue;
      algorithm = told.algorithm;
      break;
    }
    ASSERT_GE(algorithm, 0);
    algorithms.push_back(algorithm);
    slice = std::max(slice, ReportedNeed(*layer, algorithm).value());
  }
  EXPECT_LE(slice, kTightBytes);
  const GuardedMemory workspace(slice * layers.size());
  std::vector<cudaStream_t> streams(layers.size());
  std::vector<Bytes> expected;
  const Scales adding{1, 1};
  std::mt19937 random(13);
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i]->FillIntegers(random);
    expected.push_back(layers[i]->Expected(adding));
    ASSERT_EQ(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudnnSetStream(layers[i]->handle(), streams[i]), CUDNN_STATUS_SUCCESS);
  }
  for (int step = 0; step < 5; ++step) {
    for (size_t i = 0; i < layers.size(); ++i) {
      void* const part = slice == 0 ? nullptr : static_cast<char*>(workspace.data()) + i * slice;
      ASSERT_EQ(layers[i]->Run(DropIn(), algorithms[i], part, slice, adding), CUDNN_STATUS_SUCCESS);
    }
    for (size_t i = 0; i < layers.size(); ++i) {
      EXPECT_TRUE(layers[i]->OutputEquals(expected[i], layers[i]->TakeOutput()));
      EXPECT_TRUE(layers[i]->NothingElseWasWritten());
    }
  }
  EXPECT_TRUE(workspace.GuardsAreIntact());
  for (const Convolution* layer : layers) {
    const auto kernels = KernelsOf(ReadReport(), layer->problem());
    EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(),
                            [](const auto& kernel) { return Pieces(kernel) > 1; }));
  }
  for (cudaStream_t stream : streams) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(UsersLimit, SizesReadAgainDoNotGrow) {
  for (const Operation operation : kOperations) {
    Convolution convolution(LayerProblem(operation));
    for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
      const std::optional<size_t> first = ReportedNeed(convolution, algorithm);
      FindEx(convolution, 70000);
      const std::optional<size_t> again = ReportedNeed(convolution, algorithm);
      ASSERT_EQ(first.has_value(), again.has_value());
      EXPECT_LE(again.value_or(0), first.value_or(0));
    }
  }
}

// --- No workspace at all -------------------------------------------------------------------------
class LimitZero : public Protocol {};

TEST_F(LimitZero, EveryAnswerIsKept) { EveryAnswerIsKept(0); }

TEST_F(LimitZero, WorkspacePassedIsNotTouched) {
  Convolution convolution(LayerProblem(Operation::kForward));
  std::mt19937 random(14);
  convolution.FillIntegers(random);
  const Bytes expected = convolution.Expected();
  GuardedMemory workspace(1 << 20);
  const Bytes pattern(workspace.bytes(), 0x5A);
  workspace.Upload(pattern);
  EXPECT_EQ(convolution.Run(DropIn(), 1, workspace.data(), workspace.bytes()),
            CUDNN_STATUS_SUCCESS);
  EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
  EXPECT_EQ(workspace.Download(), pattern);
}

// --- Deterministic engines only, in less than any of them needs ----------------------------------
class Deterministic : public Protocol {};

TEST_F(Deterministic, OnlyDeterministicEnginesAreOfferedAndRun) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    const Answer answer = Ask(DropIn(), Question::kFind, convolution, kAlgorithms);
    ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
    for (const auto& told : answer.algorithms) EXPECT_EQ(told.determinism, CUDNN_DETERMINISTIC);
    RunAndCompare(convolution, 0, 1 << 20);
    for (const auto& kernel : KernelsOf(ReadReport(), convolution.problem())) {
      if (operation == Operation::kForward) continue;
      for (const std::string& engine : Engines(kernel)) EXPECT_NE(engine, "legacy:0");
    }
  }
}

class DeterministicBelowEveryEngine : public Protocol {};

TEST_F(DeterministicBelowEveryEngine, GenuineBehaviourWithOneWarningAndAFallback) {
  Convolution convolution(LayerProblem(Operation::kBackwardData));
  const Answer answer = Ask(DropIn(), Question::kFind, convolution, kAlgorithms);
  const Answer genuine = Ask(Undivided(), Question::kFind, convolution, kAlgorithms);
  ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(answer.algorithms.size(), genuine.algorithms.size());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ReportedNeed(convolution, 1), GenuineNeed(convolution, 1));
    RunAndCompare(convolution, 1, *GenuineNeed(convolution, 1));
  }
  EXPECT_FALSE(ReadReport()["fallbacks"].empty());
  std::map<std::string, int> warnings;
  for (const std::string& line : LogLines()) ++warnings[line];
  EXPECT_FALSE(warnings.empty());
  for (const auto& [line, count] : warnings) EXPECT_EQ(count, 1) << line;
}

// --- Nothing measured, and nothing may be
// ---------------------------------------------------------
class Unmeasured : public Protocol {};

TEST_F(Unmeasured, TheLimitHoldsInEveryAnswerAndOtherCallsAreTold) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    // Another size than the primed ones.
    Convolution convolution(LayerProblem(operation, 3));
    for (const Question question : {Question::kFind, Question::kGet}) {
      const Answer answer = Ask(DropIn(), question, convolution, kAlgorithms);
      ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
      ASSERT_FALSE(answer.algorithms.empty());
      for (const auto& told : answer.algorithms) EXPECT_EQ(told.workspace_bytes, 0u);
    }
    RunAndCompare(convolution, 1, *GenuineNeed(convolution, 1));
  }
  const nlohmann::json report = ReadReport();
  EXPECT_EQ(report["measured"], 0);
  EXPECT_EQ(report["fallbacks"].size(), std::size(kOperations));
  for (const auto& kernel : report["kernels"]) EXPECT_TRUE(kernel["plan"][0]["time_ms"].is_null());
}

// --- Nothing may change --------------------------------------------------------------------------
class Unchanged : public Protocol {
 protected:
  static void EverythingIsGenuine() {
    for (const Operation operation : kOperations) {
      Convolution convolution(LayerProblem(operation));
      for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
        const std::optional<size_t> need = GenuineNeed(convolution, algorithm);
        EXPECT_EQ(ReportedNeed(convolution, algorithm), need);
      }
      const Answer answer = Ask(DropIn(), Question::kGet, convolution, kAlgorithms);
      const Answer genuine = Ask(Undivided(), Question::kGet, convolution, kAlgorithms);
      ASSERT_EQ(answer.algorithms.size(), genuine.algorithms.size());
      for (size_t i = 0; i < answer.algorithms.size(); ++i) {
        EXPECT_EQ(answer.algorithms[i].algorithm, genuine.algorithms[i].algorithm);
        EXPECT_EQ(answer.algorithms[i].status, genuine.algorithms[i].status);
        EXPECT_EQ(answer.algorithms[i].workspace_bytes, genuine.algorithms[i].workspace_bytes);
        EXPECT_EQ(answer.algorithms[i].determinism, genuine.algorithms[i].determinism);
        EXPECT_EQ(answer.algorithms[i].math, genuine.algorithms[i].math);
      }
      EXPECT_EQ(RunAndCompare(convolution, 0, 1 << 20), 1);
      EXPECT_EQ(RunAndCompare(convolution, 1, *GenuineNeed(convolution, 1)), 1);
    }
  }
};
class ModeOff : public Unchanged {};
class ModeObserve : public Unchanged {};

TEST_F(ModeOff, EverythingIsGenuineAndNothingIsReported) {
  EverythingIsGenuine();
  EXPECT_TRUE(ReadReport().is_null());
}

TEST_F(ModeObserve, EverythingIsGenuineAndReported) {
  EverythingIsGenuine();
  const nlohmann::json report = ReadReport();
  EXPECT_EQ(report["mode"], "observe");
  for (const Operation operation : kOperations) {
    const auto kernels = KernelsOf(report, LayerProblem(operation));
    EXPECT_EQ(kernels.size(), 2u);
    for (const auto& kernel : kernels) EXPECT_EQ(Pieces(kernel), 1);
  }
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  using ucudnn::test::Environment;
  const auto with = [](Environment environment) {
    environment.emplace_back("UCUDNN_TUNE", "off");
    return environment;
  };
  const std::string tight = std::to_string(ucudnn::test::kTightBytes);
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"CallersLimit", with({})},
       {"UsersLimit", with({{"UCUDNN_WORKSPACE_LIMIT", tight}})},
       {"LimitZero", with({{"UCUDNN_WORKSPACE_LIMIT", "0"}})},
       {"Deterministic", with({{"UCUDNN_DETERMINISTIC", "1"}})},
       {"DeterministicBelowEveryEngine",
        with({{"UCUDNN_DETERMINISTIC", "1"}, {"UCUDNN_WORKSPACE_LIMIT", "100"}})},
       {"Unmeasured", with({{"UCUDNN_WORKSPACE_LIMIT", "0"}})},
       {"ModeOff", with({{"UCUDNN_MODE", "off"}})},
       {"ModeObserve", with({{"UCUDNN_MODE", "observe"}})}});
}
