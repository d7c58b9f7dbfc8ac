// Tests faults in all ways in which ucudnn makes a plan: it compares the plan with the undivided
// engine for the first time, measures at the third call, promises from heuristics and improves the
// plan later, or follows policy auto. Also tests faults when every call is checked, under a strict
// limit, and without a report. Each call that may meet the fault runs while another thread
// captures.
//
// The result stays right, or the caller gets the real error of its own call. No device memory stays
// allocated, and what a fault prevented succeeds later.
//
// With INTERPOSER_TEST_FAULTS=every (tools/check --full), each occurrence is made to fail. Where
// there are very many allocations, most are skipped even then. Otherwise, the first occurrence at
// each site fails, and on average every eighth later one, chosen with a fixed seed.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "faults.h"
#include "free_memory.h"
#include "layer.h"
#include "libraries.h"
#include "primed_store.h"
#include "queries.h"
#include "report_file.h"
#include "shim/host/hostgpu.h"
#include "suites.h"

namespace ucudnn::test {
namespace {

constexpr int kImages = 4;
// Algorithm 1 of LayerProblem needs about 7 KB for each image, so two images fit kLimit, and
// kImages images do not.
constexpr size_t kLimit = 16384;
constexpr char kLimitText[] = "16KiB";
constexpr const char* kResources[] = {"alloc",       "pool",   "stream", "event",
                                      "synchronize", "handle", "query"};
const Scales kScales[] = {{1, 0}, {2, 1}};

// Describes a program: what it asks, how often it calls, and whether it may be refused.
struct Program {
  std::optional<Question> question;  // if nullopt, the program calls algorithm 1 with its real need
  int calls = 1;                     // the number of calls while the fault is armed
  bool may_be_refused = false;       // whether a strict limit may refuse its calls
};

class Flow : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // The process's first call opens the driver, the platform and the store. It is made here,
    // before any fault.
    Convolution convolution(FreshLayer(Operation::kForward, kImages));
    convolution.Run(DropIn(), 0, nullptr, 0);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (cudaStream_t* stream : {&stream_, &captured_}) {
      ASSERT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    }
  }

  // Asks about `problem` and runs it while `fault` is armed, then four more times without the
  // fault. Returns the number of convolutions of the last call.
  static long Meet(const Program& program, const ConvolutionProblem& problem, Fault& fault,
                   const Scales& scales = {}) {
    const NothingStays nothing_stays;
    Convolution convolution(problem);
    const Bytes expected = convolution.FillAndExpect(41, scales);
    EXPECT_EQ(cudnnSetStream(convolution.handle(), stream_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const size_t before = FreeMemory();
    int algorithm = 1;
    size_t bytes = RealNeed(convolution, 1).value();
    if (program.question) {
      const GuardedMemory lent(kLimit);
      Answer answer;
      BesideACapture(fault, [&] {
        answer = Ask(DropIn(), *program.question, convolution, 1, lent.data(), lent.bytes());
      });
      EXPECT_TRUE(lent.GuardsAreIntact());
      if (answer.status == CUDNN_STATUS_SUCCESS && !answer.algorithms.empty()) {
        algorithm = answer.algorithms[0].algorithm;
        bytes = answer.algorithms[0].workspace_bytes;
      } else {
        EXPECT_TRUE(program.may_be_refused) << answer.status;
        algorithm = 0;
        bytes = 0;
      }
      // If the fault prevented ucudnn from answering, the real library's answer may exceed the
      // limit.
      EXPECT_TRUE(bytes <= kLimit || fault.occurred()) << bytes;
    }
    std::optional<GuardedMemory> workspace(std::in_place, bytes);
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    const auto run = [&] {
      status = convolution.Run(DropIn(), algorithm, workspace->data(), bytes, scales);
    };
    const auto check = [&] {
      EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
    };
    for (int call = 0; call < program.calls; ++call) {
      SCOPED_TRACE("call " + std::to_string(call));
      BesideACapture(fault, run);
      if (status == CUDNN_STATUS_SUCCESS) {
        check();
      } else if (status == CUDNN_STATUS_NOT_SUPPORTED && program.may_be_refused) {
        EXPECT_EQ(convolution.output().content, convolution.TakeOutput()) << "was refused";
      } else {
        // A call may fail only if the fault hit the caller's own convolution.
        EXPECT_EQ(status, CUDNN_STATUS_EXECUTION_FAILED);
        EXPECT_TRUE(fault.IsConvolution() && fault.last_failed());
        convolution.TakeOutput();
      }
    }
    long convolutions = 0;
    for (int call = 0; call < 4; ++call) {
      SCOPED_TRACE("later call " + std::to_string(call));
      ConvolutionsRun();
      run();
      convolutions = ConvolutionsRun();
      EXPECT_EQ(status, CUDNN_STATUS_SUCCESS);
      check();
    }
    EXPECT_TRUE(convolution.NothingElseWasWritten());
    EXPECT_TRUE(workspace->GuardsAreIntact());
    workspace.reset();
    ExpectNothingStays(before);
    return convolutions;
  }

  // Calls Meet with problem() while the k-th occurrence at `site` fails. k starts at 1 and grows by
  // `stride` * FaultsBetween(), until there is no k-th occurrence. Calls check(k, result of Meet)
  // for each k.
  static void FailEvery(std::string_view site, const Program& program,
                        const std::function<ConvolutionProblem()>& problem,
                        const Scales& scales = {},
                        const std::function<void(long, long)>& check = {}, long stride = 1) {
    for (long kth = 1; !HasFailure(); kth += stride * FaultsBetween()) {
      const ConvolutionProblem next = problem();
      Fault fault(site, kth);
      SCOPED_TRACE(std::string(OperationName(next.operation)) + " beta " +
                   std::to_string(scales.beta) + " " + fault.Name());
      const long convolutions = Meet(program, next, fault, scales);
      if (check) check(kth, convolutions);
      if (!fault.occurred()) return;
      ++met_;
    }
  }

  // Expects that more than `faults` faults occurred, or more than ShareOf(faults) if not all faults
  // are tried.
  static void ExpectMet(long faults) { EXPECT_GT(met_, ShareOf(faults)); }
  static long ShareOf(long faults) { return faults / MeanStep(); }

  // Expects `expected` convolutions in a later call. Under one budget, 1 is also right: after a
  // failed allocation, ucudnn retries only when other memory was freed.
  static testing::AssertionResult Divided(long convolutions, long expected) {
    if (convolutions == expected || (TotalWorkspace() && convolutions == 1)) {
      return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << convolutions << " convolutions, not " << expected;
  }

  static void BesideACapture(Fault& fault, const std::function<void()>& call) {
    ASSERT_EQ(cudaStreamBeginCapture(captured_, cudaStreamCaptureModeGlobal), cudaSuccess);
    std::thread([&] {
      fault.Arm();
      call();
      fault.Disarm();
    }).join();
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(captured_, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(captured_, &graph), cudaSuccess);
    size_t nodes = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
    EXPECT_EQ(nodes, 0u);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }

  // Returns a random distance from one tried fault to the next, MeanStep() on average.
  static long FaultsBetween() {
    static std::mt19937 random(17);
    return std::uniform_int_distribution<long>(1, 2 * MeanStep() - 1)(random);
  }

  static long met_;  // the number of faults that occurred

 private:
  // Under one budget for all kernels, fewer faults are tried, because the budget changes little of
  // what these tests cover.
  static long MeanStep() { return (EveryFault() ? 1 : 8) * (TotalWorkspace() ? 8 : 1); }

  static cudaStream_t stream_, captured_;
};
cudaStream_t Flow::stream_ = nullptr, Flow::captured_ = nullptr;
long Flow::met_ = 0;

// --- A divided plan from a store, not compared yet -----------------------------------------------
class Verifying : public Flow {
 protected:
  // Returns a new kernel. The store says that the kernel is fastest in pieces of one image, and
  // that these pieces were not verified.
  static ConvolutionProblem Untrusted(Operation operation) {
    const ConvolutionProblem problem = FreshLayer(operation, kImages);
    PrimedStore store;
    store.Add(problem, {1, kImages}, DividedInto(1, kImages));
    store.Write(false);
    return problem;
  }
  static constexpr Program kProgram = {Question::kFindEx};
  // The number of convolutions of the comparison: the undivided engine and each piece run once.
  static constexpr long kCompared = 1 + kImages;
};

TEST_F(Verifying, EveryFaultCostsTheComparisonAndNotTheCall) {
  for (const Operation operation : kOperations)
    for (const Scales& scales : kScales) {
      const auto problem = [&] { return Untrusted(operation); };
      for (const char* site : kResources) {
        FailEvery(site, kProgram, problem, scales, [](long, long convolutions) {
          EXPECT_TRUE(Divided(convolutions, kImages)) << "it was not compared later";
        });
      }
      FailEvery("convolution", kProgram, problem, scales, [](long kth, long convolutions) {
        // The comparison comes first. Then the call's own pieces run; if one of these fails, the
        // kernel does not divide again.
        const bool piece = kth > kCompared && kth <= kCompared + kImages;
        EXPECT_EQ(convolutions, piece ? 1 : kImages);
      });
    }
  ExpectMet(200);
}

TEST_F(Verifying, EveryAllocationMayFail) {
  if (!AllocationsCanFail()) GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail";
  // The store is read once. If reading the store fails, the kernel runs undivided, and nothing is
  // compared.
  long compared = 0;
  FailEvery(
      kHostMemory, kProgram, [] { return Untrusted(Operation::kForward); }, {},
      [&](long, long convolutions) {
        EXPECT_TRUE(convolutions == kImages || convolutions == 1) << convolutions;
        compared += convolutions == kImages ? 1 : 0;
      });
  EXPECT_GT(compared, ShareOf(100));
  ExpectMet(100);
}

// --- Checked at every call -----------------------------------------------------------------------
class Checked : public Flow {
 protected:
  static void SetUpTestSuite() {
    PrimedStore store;
    for (const Operation operation : kOperations) {
      problems_.push_back(FreshLayer(operation, kImages));
      store.Add(problems_.back(), {1, kImages}, DividedInto(1, kImages));
      for (int i = 0; i < kSpare; ++i) {
        spare_[operation].push_back(FreshLayer(operation, kImages));
        store.Add(spare_[operation].back(), {1, kImages}, DividedInto(1, kImages));
      }
    }
    store.Write();
    Flow::SetUpTestSuite();
  }
  // Returns a kernel that no test has used: a kernel never divides again after one of its pieces
  // failed.
  static ConvolutionProblem Spare(Operation operation) {
    std::vector<ConvolutionProblem>& left = spare_[operation];
    EXPECT_GT(left.size(), 1u);
    const ConvolutionProblem problem = left.back();
    if (left.size() > 1) left.pop_back();
    return problem;
  }
  static std::vector<ConvolutionProblem> problems_;
  static std::map<Operation, std::vector<ConvolutionProblem>> spare_;
  static constexpr int kSpare = 60;
  static constexpr Program kProgram = {Question::kFindEx, 2};
};
std::vector<ConvolutionProblem> Checked::problems_;
std::map<Operation, std::vector<ConvolutionProblem>> Checked::spare_;

TEST_F(Checked, EveryFaultLeavesTheCallersResult) {
  for (const ConvolutionProblem& problem : problems_)
    for (const Scales& scales : kScales) {
      const auto same = [&] { return problem; };
      for (const char* site : kResources) {
        FailEvery(site, kProgram, same, scales, [](long, long convolutions) {
          EXPECT_TRUE(Divided(convolutions, kImages + 1)) << "the plan and the undivided engine";
        });
      }
      FailEvery(
          "convolution", kProgram, [&] { return Spare(problem.operation); }, scales);
    }
  ExpectMet(50);
}

TEST_F(Checked, EveryAllocationMayFail) {
  if (!AllocationsCanFail()) GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail";
  for (const ConvolutionProblem& problem : problems_) {
    FailEvery(kHostMemory, kProgram, [&] { return problem; });
  }
  ExpectMet(100);
}

// --- Measured ------------------------------------------------------------------------------------
class Measured : public Flow {
 protected:
  static void FailEveryResource(const Program& program) {
    for (const Operation operation : kOperations) {
      const auto problem = [&] { return FreshLayer(operation, kImages); };
      for (const char* site : kResources) FailEvery(site, program, problem);
    }
    ExpectMet(100);
  }
  static void FailEveryConvolution(const Program& program) {
    for (const Operation operation : kOperations) {
      FailEvery("convolution", program, [&] { return FreshLayer(operation, 2); });
    }
    ExpectMet(20);
  }
  static void FailEveryAllocation(const Program& program) {
    if (!AllocationsCanFail()) GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail";
    // A kernel with two images can be divided, and few of its sizes are measured.
    FailEvery(kHostMemory, program, [] { return FreshLayer(Operation::kForward, 2); });
    ExpectMet(100);
  }
};

// The program asks nothing, so the kernel is measured at the third call.
class ThirdCall : public Measured {
 protected:
  static constexpr Program kProgram = {std::nullopt, 4};
};
TEST_F(ThirdCall, EveryResourceMayFail) { FailEveryResource(kProgram); }
TEST_F(ThirdCall, EveryConvolutionMayFail) { FailEveryConvolution(kProgram); }
TEST_F(ThirdCall, EveryAllocationMayFail) { FailEveryAllocation(kProgram); }

// Here, graph engines are listed, measured and compared as well. The other suites run without graph
// engines and test the faults that both kinds of engines share.
class BothEngines : public Measured {
 protected:
  static constexpr Program kProgram = {Question::kFindEx, 2};
  static ConvolutionProblem Next() { return FreshLayer(Operation::kForward, 2); }
};
TEST_F(BothEngines, EveryResourceAndConvolutionMayFail) {
  for (const char* site : kResources) FailEvery(site, kProgram, Next);
  FailEvery("convolution", kProgram, Next);
  ExpectMet(50);
}
TEST_F(BothEngines, AllocationsMayFail) {
  if (!AllocationsCanFail()) GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail";
  FailEvery(kHostMemory, kProgram, Next, {}, {}, 17);
  ExpectMet(50);
}

// The answer comes from heuristics and fits the limit. The third call measures, and may improve the
// plan.
class Improved : public Measured {
 protected:
  static constexpr Program kProgram = {Question::kGet, 4};
};
TEST_F(Improved, EveryResourceMayFail) { FailEveryResource(kProgram); }
TEST_F(Improved, EveryConvolutionMayFail) { FailEveryConvolution(kProgram); }
TEST_F(Improved, EveryAllocationMayFail) { FailEveryAllocation(kProgram); }

class PolicyAuto : public Measured {
 protected:
  static constexpr Program kProgram = {Question::kFindEx};
};
TEST_F(PolicyAuto, EveryResourceMayFail) { FailEveryResource(kProgram); }
TEST_F(PolicyAuto, EveryConvolutionMayFail) { FailEveryConvolution(kProgram); }

class Strict : public Measured {
 protected:
  static constexpr Program kProgram = {Question::kFindEx, 2, true};
};
TEST_F(Strict, EveryResourceMayFail) { FailEveryResource(kProgram); }
TEST_F(Strict, EveryConvolutionMayFail) { FailEveryConvolution(kProgram); }

// --- A budget that is learned, then divided ------------------------------------------------------
class Learning : public Flow {
 protected:
  static constexpr char kSite[] = "LEARNING_SITE", kOccurrence[] = "LEARNING_OCCURRENCE";
  static constexpr int kSteps = 6;

  static void SetUpTestSuite() {
    PrimedStore store;
    for (const ConvolutionProblem& problem : Step()) {
      store.Add(problem, {1, kImages}, [](int algorithm, int micro_batch) {
        return algorithm == 1 ? 1.0 * micro_batch : 4.0 * micro_batch;
      });
    }
    if (!std::filesystem::exists(DatabasePath())) store.Write();
    Flow::SetUpTestSuite();
  }

  // Returns the kernels of a step. The store has measurements of them.
  static std::vector<ConvolutionProblem> Step() {
    std::vector<ConvolutionProblem> step;
    for (const Operation operation : kOperations) {
      step.push_back(AsRead(LayerProblem(operation, kImages)));
    }
    return step;
  }
  static std::string DonePath() { return Folder() + "/done"; }
  static std::string ReportName(const std::string& site, long kth) {
    return site + std::to_string(kth) + ".json";
  }
};

TEST_F(Learning, MeetsOneFault) {
  const char* const site = std::getenv(kSite);
  if (site == nullptr) GTEST_SKIP() << "runs for EveryFaultLeavesTheCallersResult";
  Fault fault(site, std::atol(std::getenv(kOccurrence)));
  std::vector<std::unique_ptr<Convolution>> step;
  std::vector<Bytes> expected;
  std::mt19937 random(43);
  for (const ConvolutionProblem& problem : Step()) {
    step.push_back(std::make_unique<Convolution>(problem));
    step.back()->FillIntegers(random);
    expected.push_back(step.back()->Expected());
  }
  const NothingStays nothing_stays;
  cudnnHandle_t handle = nullptr;
  fault.Arm();
  EXPECT_EQ(DropIn().cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  fault.Disarm();
  for (int at = 0; at < kSteps; ++at) {
    for (size_t kernel = 0; kernel < step.size(); ++kernel) {
      SCOPED_TRACE("step " + std::to_string(at) + " kernel " + std::to_string(kernel));
      cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
      BesideACapture(fault, [&] { status = step[kernel]->RunOn(handle, DropIn(), 0, nullptr, 0); });
      EXPECT_EQ(status, CUDNN_STATUS_SUCCESS);
      EXPECT_TRUE(step[kernel]->OutputEquals(expected[kernel], step[kernel]->TakeOutput()));
      EXPECT_TRUE(step[kernel]->NothingElseWasWritten());
    }
  }
  fault.Arm();
  EXPECT_EQ(DropIn().cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
  fault.Disarm();
  if (!fault.occurred()) std::ofstream(DonePath()) << "none so late\n";
}

TEST_F(Learning, EveryFaultLeavesTheCallersResult) {
  for (const std::string site : {"alloc", "pool", "stream", "event", "query", "host memory"}) {
    if (site == kHostMemory && !AllocationsCanFail()) continue;
    std::filesystem::remove(DonePath());
    const long stride = site == kHostMemory ? 3 : 1;
    for (long kth = 1; !std::filesystem::exists(DonePath()) && !HasFailure();
         kth += stride * FaultsBetween()) {
      TestProcess process("Learning.MeetsOneFault", ReportName(site, kth),
                          {{kSite, site}, {kOccurrence, std::to_string(kth)}});
      EXPECT_TRUE(process.Passed()) << site << " " << kth;
      ++met_;
    }
  }
  std::printf("%ld faults\n", met_);
  ExpectMet(AllocationsCanFail() ? 200 : 60);
}

// --- A report that cannot be written -------------------------------------------------------------
class NoReport : public Flow {};

TEST_F(NoReport, CostsOneWarning) {
  for (const Operation operation : kOperations) {
    Fault none("alloc", 0);
    Meet({Question::kFindEx}, FreshLayer(operation, kImages), none);
  }
  std::vector<std::string> lines = LogLines();
  // All suites may run under a budget. So warnings about engines that exceed the budget are left
  // out.
  std::erase_if(lines, [](const std::string& line) {
    return line.find("the total workspace") != std::string::npos;
  });
  ASSERT_EQ(lines.size(), 1u) << (lines.empty() ? "" : lines.back());
  EXPECT_NE(lines[0].find("the report cannot be written"), std::string::npos) << lines[0];
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  const auto limited = [](const char* name, const char* value) {
    return ucudnn::test::Environment{
        {name, value}, {"UCUDNN_WORKSPACE_LIMIT", ucudnn::test::kLimitText}, {"UCUDNN_REPORT", ""}};
  };
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"Verifying", {{"UCUDNN_TUNE", "off"}, {"UCUDNN_REPORT", ""}}},
       {"Checked", {{"UCUDNN_TUNE", "off"}, {"UCUDNN_CHECK", "1"}, {"UCUDNN_REPORT", ""}}},
       {"ThirdCall", limited("UCUDNN_TUNE", "after:2")},
       {"Improved", limited("UCUDNN_TUNE", "after:2")},
       {"PolicyAuto", limited("UCUDNN_BATCH_SIZE_POLICY", "auto")},
       {"Strict", limited("UCUDNN_STRICT_LIMIT", "1")},
       {"BothEngines", limited("UCUDNN_ENGINES", "both")},
       {"Learning", {{"UCUDNN_TUNE", "off"}, {"UCUDNN_TOTAL_WORKSPACE", "64KiB"}}},
       {"NoReport", {{"UCUDNN_REPORT", "/dev/null/report.json"}}}});
}
