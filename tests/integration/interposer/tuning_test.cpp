// Tests when kernels are measured, and which workspaces callers are told before and after. Results
// stay equal, reported workspaces never grow, and time budgets for measuring are kept.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "free_memory.h"
#include "layer.h"
#include "libraries.h"
#include "protocol.h"
#include "queries.h"
#include "report_file.h"
#include "suites.h"

namespace ucudnn::test {
namespace {

class Tuned : public testing::Test {
 protected:
  // Asks for one algorithm, and sets the math type that the answer names. Expects that the answer
  // fits the limit and that nothing was measured.
  static cudnn::AlgorithmPerformance AskOnce(Question question, Convolution& convolution) {
    const GuardedMemory lent(1 << 20);
    ConvolutionsRun();
    const Answer answer = Ask(DropIn(), question, convolution, 1, lent.data(), lent.bytes());
    EXPECT_EQ(ConvolutionsRun(), 0);
    EXPECT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
    const cudnn::AlgorithmPerformance told = answer.algorithms.at(0);
    EXPECT_LE(told.workspace_bytes, kTightBytes);
    UseMath(convolution, told.math);
    return told;
  }

  using Use = std::function<void(Convolution&, const cudnn::AlgorithmPerformance& told)>;
  // For every operation and every question, asks the question about a new kernel, and calls `use`
  // with the kernel and the answer.
  static void ForEachAnswer(const Use& use) {
    for (const Operation operation : kOperations)
      for (const Question question : kQuestions) {
        const int number = static_cast<int>(question);
        SCOPED_TRACE(std::string(OperationName(operation)) + " question " + std::to_string(number));
        Convolution convolution(LayerProblem(operation, 17 + 2 * number));
        use(convolution, AskOnce(question, convolution));
      }
  }

  // Returns the largest workspace of the plans for `problem` in the report.
  static size_t PlannedBytes(const ConvolutionProblem& problem) {
    size_t most = 0;
    for (const auto& kernel : KernelsOf(ReadReport(), problem)) {
      for (const auto& run : kernel["plan"]) {
        most = std::max(most, run["workspace_bytes"].get<size_t>());
      }
    }
    return most;
  }
};

// --- Measured at the first call ------------------------------------------------------------------
class First : public Tuned {};

TEST_F(First, TheFirstCallMeasuresAndNoOtherDoes) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    EXPECT_GT(RunAndCompare(convolution, 0, 1 << 17), kLayerImages);
    const long measured = ReadReport()["measured"];
    EXPECT_GT(measured, 0);
    for (int i = 0; i < 5; ++i) {
      EXPECT_LE(RunAndCompare(convolution, 0, 1 << 17), kLayerImages);
    }
    EXPECT_EQ(ReadReport()["measured"], measured);
  }
}

// --- Measured at the fourth call -----------------------------------------------------------------
class After3 : public Tuned {};

TEST_F(After3, ThreeCallsRunAsAskedAndTheFourthMeasures) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(RunAndCompare(convolution, 0, 1 << 17), 1);
    EXPECT_GT(RunAndCompare(convolution, 0, 1 << 17), kLayerImages);
    for (int i = 0; i < 5; ++i) {
      EXPECT_LE(RunAndCompare(convolution, 0, 1 << 17), kLayerImages);
    }
    long calls = 0;
    for (const auto& kernel : KernelsOf(ReadReport(), convolution.problem())) {
      calls += kernel["calls"].get<long>();
    }
    EXPECT_EQ(calls, 3);  // the report was last written at the last decision, after three calls
  }
}

// Calls on different handles are counted together.
TEST_F(After3, HandlesCountTogether) {
  Convolution convolution(LayerProblem(Operation::kForward, 12));
  const OwnHandle handles[2];
  for (int i = 0; i < 3; ++i) {
    convolution.UseHandle(handles[i % 2].get());
    EXPECT_EQ(RunAndCompare(convolution, 0, 1 << 17), 1);
  }
  convolution.UseHandle(handles[1].get());
  EXPECT_GT(RunAndCompare(convolution, 0, 1 << 17), 12);
}

TEST_F(After3, AnotherBatchMeasuresOnlyWhatIsNew) {
  Convolution known(LayerProblem(Operation::kForward, 16));
  for (int i = 0; i < 4; ++i) RunAndCompare(known, 0, 1 << 17);
  const long before = ReadReport()["measured"];
  Convolution larger(LayerProblem(Operation::kForward, 32));
  for (int i = 0; i < 4; ++i) RunAndCompare(larger, 0, 1 << 17);
  const long fresh = ReadReport()["measured"].get<long>() - before;
  EXPECT_GT(fresh, 0);
  EXPECT_LE(fresh, kAlgorithms);  // at most one measurement for each algorithm
}

// --- Measured at the fourth call, under a limit: promises come from heuristics -------------------
class After3Limited : public Tuned {};

TEST_F(After3Limited, WhatWasToldIsKeptAndNeverGrowsWhileBetterPlansCome) {
  ForEachAnswer([](Convolution& convolution, const cudnn::AlgorithmPerformance& told) {
    const long measured = ReadReport().is_null() ? 0 : ReadReport()["measured"].get<long>();
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(ReportedNeed(convolution, told.algorithm).value(), told.workspace_bytes);
      RunAndCompare(convolution, told.algorithm, told.workspace_bytes);
    }
    EXPECT_GT(ReadReport()["measured"], measured);
    EXPECT_LE(PlannedBytes(convolution.problem()), told.workspace_bytes);
  });
}

TEST_F(After3Limited, SizesAloneArePromisesToo) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation, 27));
    const size_t need = ReportedNeed(convolution, 1).value();
    EXPECT_LE(need, std::max(kTightBytes, *RealNeed(convolution, 1)));
    for (int i = 0; i < 8; ++i) {
      RunAndCompare(convolution, 1, need);
      EXPECT_LE(ReportedNeed(convolution, 1).value(), need);
    }
    EXPECT_LE(PlannedBytes(convolution.problem()), need);
  }
}

// --- Never measured ------------------------------------------------------------------------------
class Off : public Tuned {};

TEST_F(Off, EveryCallRunsAsAsked) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    const size_t need = *RealNeed(convolution, 1);
    EXPECT_EQ(ReportedNeed(convolution, 1).value(), need);
    for (int i = 0; i < 12; ++i) EXPECT_EQ(RunAndCompare(convolution, 1, need), 1);
    const auto kernels = KernelsOf(ReadReport(), convolution.problem());
    ASSERT_EQ(kernels.size(), 1u);
    EXPECT_EQ(Engines(kernels[0]), std::vector<std::string>{"legacy:1"});
  }
  EXPECT_EQ(ReadReport()["measured"], 0);
}

class OffLimited : public Tuned {};

TEST_F(OffLimited, WhatTheHeuristicsKnowUndividedIsToldAndKept) {
  ForEachAnswer([](Convolution& convolution, const cudnn::AlgorithmPerformance& told) {
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(RunAndCompare(convolution, told.algorithm, told.workspace_bytes), 1);
    }
  });
  EXPECT_EQ(ReadReport()["measured"], 0);
}

// --- Little memory for measuring -----------------------------------------------------------------
// With little memory, some algorithms cannot be measured. One of them may be the fastest.
class LittleMemory : public Tuned {};

TEST_F(LittleMemory, AnAlgorithmThatWasNotMeasuredIsNotReplaced) {
  Convolution convolution(LayerProblem(Operation::kForward));
  const size_t need = *RealNeed(convolution, 1);
  RunAndCompare(convolution, 1, need);
  const auto kernels = KernelsOf(ReadReport(), convolution.problem());
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_GT(ReadReport()["measured"], 0);
  EXPECT_EQ(Engines(kernels[0]), std::vector<std::string>{"legacy:1"}) << kernels[0].dump(1);
  EXPECT_EQ(Pieces(kernels[0]), 1);
}

// --- A strict limit ------------------------------------------------------------------------------
class Strict : public Tuned {};

TEST_F(Strict, WhatCannotBeBroughtUnderItIsRefusedAndNothingIsWritten) {
  Convolution convolution(LayerProblem(Operation::kBackwardData));
  for (const Question question : {Question::kFind, Question::kGet}) {
    EXPECT_EQ(Ask(DropIn(), question, convolution, kAlgorithms).status, CUDNN_STATUS_NOT_SUPPORTED);
  }
  EXPECT_EQ(ReportedNeed(convolution, 1), std::nullopt);
  const size_t need = *RealNeed(convolution, 1);
  ASSERT_GT(need, 0u);
  convolution.FillIntegers(22);
  GuardedMemory workspace(need);
  const Bytes pattern(need, 0x5A);
  workspace.Upload(pattern);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(convolution.Run(DropIn(), 1, workspace.data(), need), CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_TRUE(convolution.output().IsUnchanged());
    EXPECT_EQ(workspace.Download(), pattern);
  }
  EXPECT_FALSE(ReadReport()["fallbacks"].empty());
}

TEST_F(Strict, WhatTheRealLibraryRefusesIsItsOwnError) {
  Convolution convolution(LayerProblem(Operation::kForward));
  const GuardedMemory workspace(1 << 20);
  for (const int algorithm : {-1, 3, kAlgorithms}) {
    EXPECT_EQ(convolution.Run(DropIn(), algorithm, workspace.data(), workspace.bytes()),
              convolution.Run(Undivided(), algorithm, workspace.data(), workspace.bytes()));
  }
}

// --- A limit from free memory --------------------------------------------------------------------
class Automatic : public Tuned {};

TEST_F(Automatic, ItIsAQuarterOfWhatIsFreeAndFallsWhenACallersAllocationFails) {
  const size_t free = FreeMemory();
  const auto limit = [](int n) -> size_t {
    Convolution convolution(LayerProblem(Operation::kForward, n));
    RunAndCompare(convolution, 0, 1 << 24);
    return KernelsOf(ReadReport(), convolution.problem()).at(0)["limit_bytes"];
  };
  const size_t first = limit(2);
  EXPECT_LE(first, free / 4);
  EXPECT_GT(2 * first, free / 8);
  EXPECT_EQ(limit(3), first);
  // The program passes one byte less than reported, as if it could not allocate more.
  Convolution convolution(LayerProblem(Operation::kForward, 16));
  const GuardedMemory lent(1 << 20);
  const auto told =
      Ask(DropIn(), Question::kFindEx, convolution, kAlgorithms, lent.data(), lent.bytes());
  const auto needy =
      std::find_if(told.algorithms.begin(), told.algorithms.end(), [](const auto& algorithm) {
        return algorithm.algorithm == 1 && algorithm.status == CUDNN_STATUS_SUCCESS;
      });
  ASSERT_NE(needy, told.algorithms.end());
  ASSERT_GT(needy->workspace_bytes, 0u);
  const GuardedMemory less(needy->workspace_bytes - 1);
  convolution.Run(DropIn(), 1, less.data(), less.bytes());
  EXPECT_EQ(limit(5), needy->workspace_bytes - 1);
  EXPECT_EQ(limit(6), needy->workspace_bytes - 1);
  // A program that passes no workspace is no sign of short memory, so the limit does not change.
  const Answer again = Ask(DropIn(), Question::kFind, convolution, kAlgorithms);
  ASSERT_EQ(again.status, CUDNN_STATUS_SUCCESS);
  for (const auto& algorithm : again.algorithms) {
    EXPECT_LE(algorithm.workspace_bytes, needy->workspace_bytes - 1);
  }
  convolution.Run(DropIn(), 1, nullptr, 0);
  EXPECT_GE(limit(7), 1u);
}

// --- Shapes that never repeat --------------------------------------------------------------------
class Shapes : public Tuned {
 protected:
  // Calls 1,000 different shapes `calls` times each.
  static void RunAll(int calls) {
    for (int i = 0; i < 1000; ++i) {
      ConvolutionProblem problem = LayerProblem(kOperations[i % 3], 1 + i / 3 % 20);
      problem.x = {1, 5 + i / 60, 6};
      SetPackedStrides(problem);
      Convolution convolution(problem);
      for (int call = 0; call < calls; ++call) RunAndCompare(convolution, 0, 1 << 12);
      if (testing::Test::HasFailure()) return;
    }
  }
};

TEST_F(Shapes, AThousandCostTheBudgetAndNoMemory) {
  Convolution warm_up(LayerProblem(Operation::kForward));
  RunAndCompare(warm_up, 0, 1 << 12);
  const size_t device_before = FreeMemory();
  RunAll(4);
  EXPECT_EQ(FreeMemory(), device_before);
  const long measured = ReadReport()["measured"];
  // The time for measuring is used up, so a new kernel runs unmeasured.
  Convolution late(LayerProblem(Operation::kForward, 31));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(RunAndCompare(late, 0, 1 << 12), 1);
  EXPECT_EQ(ReadReport()["measured"], measured);
  std::map<std::string, int> warnings;
  for (const std::string& line : LogLines()) {
    if (line.find("warning") != std::string::npos) ++warnings[line];
  }
  EXPECT_LE(warnings.size(), 3u);
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  const std::string tight = std::to_string(ucudnn::test::kTightBytes);
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"First", {}},
       {"After3", {{"UCUDNN_TUNE", "after:3"}}},
       {"After3Limited", {{"UCUDNN_TUNE", "after:3"}, {"UCUDNN_WORKSPACE_LIMIT", tight}}},
       {"Off", {{"UCUDNN_TUNE", "off"}}},
       {"OffLimited", {{"UCUDNN_TUNE", "off"}, {"UCUDNN_WORKSPACE_LIMIT", tight}}},
       {"LittleMemory", {{"UCUDNN_TUNE_MEMORY", "160000"}}},
       {"Strict",
        {{"UCUDNN_STRICT_LIMIT", "1"},
         {"UCUDNN_DETERMINISTIC", "1"},
         {"UCUDNN_WORKSPACE_LIMIT", "100"}}},
       {"Automatic", {{"UCUDNN_WORKSPACE_LIMIT", "auto"}, {"HOSTGPU_MEMORY", "64MiB"}}},
       {"Shapes", {{"UCUDNN_TUNE", "after:2"}, {"UCUDNN_TUNE_SECONDS", "0.2:1"}}}});
}
