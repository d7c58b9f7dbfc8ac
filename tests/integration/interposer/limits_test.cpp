// Tests which workspaces ucudnn reports to frameworks, and what then runs. In each suite the user
// does something else: sets a limit, requires determinism, forbids measuring, lets ucudnn only
// observe, or turns ucudnn off.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "layer.h"
#include "libraries.h"
#include "primed_store.h"
#include "protocol.h"
#include "queries.h"
#include "report_file.h"
#include "suites.h"

namespace ucudnn::test {
namespace {

// --- The user sets a limit -----------------------------------------------------------------------
class UsersLimit : public Protocol {};

// PyTorch's deterministic mode always uses algorithm 1, and asks only for that algorithm's
// workspace. This test is the first of its suite, so the report has no other kernels yet.
TEST_F(UsersLimit, HardCodedAlgorithmStaysDirectAndDeterministic) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    const size_t need = ReportedNeed(convolution, 1).value();
    // No deterministic engine fits the limit undivided, so pieces of a deterministic engine must
    // keep the promise.
    EXPECT_LE(need, kTightBytes);
    RunAndCompare(convolution, 1, need);
    int engines = 0;
    for (const auto& kernel : KernelsOf(ReadReport(), convolution.problem())) {
      EXPECT_EQ(kernel["limit_bytes"], kTightBytes);
      for (const std::string& engine : Engines(kernel)) {
        ++engines;
        // In both APIs, engine 1 of every operation is direct and deterministic, and so are engines
        // 0 and 2 of forward.
        const bool forward = operation == Operation::kForward;
        const char number = engine.at(engine.find(':') + 1);
        EXPECT_TRUE(number == '1' || (forward && (number == '0' || number == '2'))) << engine;
      }
    }
    EXPECT_GT(engines, 0);
  }
}

// The program asks for the workspace of the convolution without its activation. Only algorithm 1
// supports an identity activation, so only pieces of algorithm 1 can run in the reported size.
TEST_F(UsersLimit, IdentityActivationRunsInWhatWasToldForItsAlgorithm) {
  Convolution convolution(LayerProblem(Operation::kForward), Extra::kIdentity);
  const size_t need = ReportedNeed(convolution, 1).value();
  EXPECT_LE(need, kTightBytes);
  EXPECT_GT(*RealNeed(convolution, 1), kTightBytes);
  EXPECT_GE(RunAndCompare(convolution, 1, need), 2);
}

// The answer has another math type than the question, and the caller passes more workspace than
// reported.
TEST_F(UsersLimit, IdentityActivationRunsInWhatWasToldAlsoWhereMoreIsPassed) {
  ConvolutionProblem problem = LayerProblem(Operation::kForward);
  problem.type = DataType::kHalf;
  problem.compute = DataType::kFloat;
  problem.math = MathType::kTensorOpAllowConversion;
  PrimedStore store;
  store.Add(problem, SizesFor(1, problem.n, 1), DividedInto(1, problem.n));
  store.Write();
  Convolution convolution(problem, Extra::kIdentity);
  const Answer answer = Ask(DropIn(), Question::kFind, convolution, kAlgorithms);
  const auto told =
      std::find_if(answer.algorithms.begin(), answer.algorithms.end(), [&](const auto& line) {
        return line.algorithm == 1 && static_cast<MathType>(line.math) != problem.math;
      });
  ASSERT_TRUE(told != answer.algorithms.end());
  UseMath(convolution, told->math);
  const size_t need = RealNeed(convolution, 1).value();
  EXPECT_LE(told->workspace_bytes, kTightBytes);
  EXPECT_GT(need, kTightBytes);
  EXPECT_GE(RunAndCompare(convolution, 1, need), 2);
}

TEST_F(UsersLimit, EveryAnswerIsKept) { EveryAnswerIsKept(kTightBytes); }

TEST_F(UsersLimit, NothingFasterIsPromisedAsDeterministicThanIs) {
  for (const Operation operation : {Operation::kBackwardData, Operation::kBackwardFilter}) {
    Convolution convolution(LayerProblem(operation));
    const Answer answer = Ask(DropIn(), Question::kFind, convolution, kAlgorithms);
    int times = 0;
    for (const auto& told : answer.algorithms) {
      if (told.algorithm != 0) continue;
      EXPECT_EQ(told.determinism, CUDNN_NON_DETERMINISTIC);
      ++times;
    }
    EXPECT_EQ(times, 1);
  }
}

// Caffe chooses one algorithm for each operation of a layer, asks separately for its workspace,
// cuts one allocation into a slice for each handle, and runs both gradients of a layer at the same
// time. In Caffe only filter gradients have beta = 1; here all operations do.
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
  const std::vector<OwnStream> streams(layers.size());
  std::vector<Bytes> expected;
  const Scales adding{1, 1};
  std::mt19937 random(13);
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i]->FillIntegers(random);
    expected.push_back(layers[i]->Expected(adding));
    ASSERT_EQ(cudnnSetStream(layers[i]->handle(), streams[i].get()), CUDNN_STATUS_SUCCESS);
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
  const Bytes expected = convolution.FillAndExpect(14);
  GuardedMemory workspace(1 << 20);
  const Bytes pattern(workspace.bytes(), 0x5A);
  workspace.Upload(pattern);
  EXPECT_EQ(convolution.Run(DropIn(), 1, workspace.data(), workspace.bytes()),
            CUDNN_STATUS_SUCCESS);
  EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
  EXPECT_EQ(workspace.Download(), pattern);
}

// --- Only deterministic engines: without a limit, and within a limit that none of them fits ------
class Deterministic : public Protocol {};

TEST_F(Deterministic, OnlyDeterministicEnginesAreOfferedAndRun) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    for (const Question question : {Question::kFind, Question::kGet}) {
      const Answer answer = Ask(DropIn(), question, convolution, kAlgorithms);
      ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
      EXPECT_FALSE(answer.algorithms.empty());
      for (const auto& told : answer.algorithms) EXPECT_EQ(told.determinism, CUDNN_DETERMINISTIC);
    }
    RunAndCompare(convolution, 0, 1 << 20);
    const auto kernels = KernelsOf(ReadReport(), convolution.problem());
    EXPECT_FALSE(kernels.empty());
    for (const auto& kernel : kernels) {
      if (operation == Operation::kForward) continue;
      for (const std::string& engine : Engines(kernel)) EXPECT_NE(engine, "legacy:0");
    }
  }
}

class DeterministicBelowEveryEngine : public Protocol {};

TEST_F(DeterministicBelowEveryEngine, RealBehaviourWithOneWarningAndAFallback) {
  Convolution convolution(LayerProblem(Operation::kBackwardData));
  const Answer answer = Ask(DropIn(), Question::kFind, convolution, kAlgorithms);
  const Answer real = Ask(Undivided(), Question::kFind, convolution, kAlgorithms);
  ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(answer.algorithms.size(), real.algorithms.size());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ReportedNeed(convolution, 1), RealNeed(convolution, 1));
    RunAndCompare(convolution, 1, *RealNeed(convolution, 1));
  }
  EXPECT_FALSE(ReadReport()["fallbacks"].empty());
  std::map<std::string, int> warnings;
  for (const std::string& line : LogLines()) ++warnings[line];
  EXPECT_FALSE(warnings.empty());
  for (const auto& [line, count] : warnings) EXPECT_EQ(count, 1) << line;
}

// --- Nothing was measured, and measuring is forbidden --------------------------------------------
class Unmeasured : public Protocol {};

TEST_F(Unmeasured, TheLimitHoldsInEveryAnswerAndOtherCallsAreTold) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    // The store has no measurements of 3 images.
    Convolution convolution(LayerProblem(operation, 3));
    for (const Question question : {Question::kFind, Question::kGet}) {
      const Answer answer = Ask(DropIn(), question, convolution, kAlgorithms);
      ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
      ASSERT_FALSE(answer.algorithms.empty());
      for (const auto& told : answer.algorithms) EXPECT_EQ(told.workspace_bytes, 0u);
    }
    RunAndCompare(convolution, 1, *RealNeed(convolution, 1));
  }
  const nlohmann::json report = ReadReport();
  EXPECT_EQ(report["measured"], 0);
  EXPECT_EQ(report["fallbacks"].size(), std::size(kOperations));
  for (const auto& kernel : report["kernels"]) EXPECT_TRUE(kernel["plan"][0]["piece_ms"].is_null());
}

// --- ucudnn must not change anything -------------------------------------------------------------
class Unchanged : public Protocol {
 protected:
  static void EverythingIsReal() {
    for (const Operation operation : kOperations) {
      Convolution convolution(LayerProblem(operation));
      for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
        const std::optional<size_t> need = RealNeed(convolution, algorithm);
        EXPECT_EQ(ReportedNeed(convolution, algorithm), need);
      }
      const Answer answer = Ask(DropIn(), Question::kGet, convolution, kAlgorithms);
      const Answer real = Ask(Undivided(), Question::kGet, convolution, kAlgorithms);
      ASSERT_EQ(answer.algorithms.size(), real.algorithms.size());
      for (size_t i = 0; i < answer.algorithms.size(); ++i) {
        EXPECT_EQ(answer.algorithms[i].algorithm, real.algorithms[i].algorithm);
        EXPECT_EQ(answer.algorithms[i].status, real.algorithms[i].status);
        EXPECT_EQ(answer.algorithms[i].workspace_bytes, real.algorithms[i].workspace_bytes);
        EXPECT_EQ(answer.algorithms[i].determinism, real.algorithms[i].determinism);
        EXPECT_EQ(answer.algorithms[i].math, real.algorithms[i].math);
      }
      EXPECT_EQ(RunAndCompare(convolution, 0, 1 << 20), 1);
      EXPECT_EQ(RunAndCompare(convolution, 1, *RealNeed(convolution, 1)), 1);
    }
  }
};
class ModeOff : public Unchanged {};
class ModeObserve : public Unchanged {};

TEST_F(ModeOff, EverythingIsRealAndNothingIsReported) {
  EverythingIsReal();
  EXPECT_TRUE(ReadReport().is_null());
}

TEST_F(ModeObserve, EverythingIsRealAndReported) {
  EverythingIsReal();
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
  const std::string tight = std::to_string(ucudnn::test::kTightBytes);
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"UsersLimit", {{"UCUDNN_WORKSPACE_LIMIT", tight}}},
       {"LimitZero", {{"UCUDNN_WORKSPACE_LIMIT", "0"}}},
       {"Deterministic", {{"UCUDNN_DETERMINISTIC", "1"}}},
       {"DeterministicBelowEveryEngine",
        {{"UCUDNN_DETERMINISTIC", "1"}, {"UCUDNN_WORKSPACE_LIMIT", "100"}}},
       {"Unmeasured", {{"UCUDNN_WORKSPACE_LIMIT", "0"}}},
       {"ModeOff", {{"UCUDNN_MODE", "off"}}},
       {"ModeObserve", {{"UCUDNN_MODE", "observe"}}}},
      {{"UCUDNN_TUNE", "off"}});
}
