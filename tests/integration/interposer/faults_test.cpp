// Tests steps in which one fault is injected: a device resource, a query or a convolution fails
// while measuring or while pieces run, or an allocation of host memory inside libucudnn fails. The
// result stays right, or the caller gets the real error. No device memory stays allocated.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <set>

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
#include "tests/support/problem.h"

namespace ucudnn::test {
namespace {

constexpr int kImages = 4;

// Returns a kernel that differs from all earlier ones, so it was not measured yet.
ConvolutionProblem FreshProblem(Operation operation, DataType type = DataType::kFloat) {
  static int next = 0;
  const Spatial image = {1, 4 + next / 40, 4 + 4 * (next % 40)};
  ++next;
  return AsRead(
      ProblemWith({.operation = operation, .n = kImages, .k = 4, .x = image, .type = type}));
}

class Faults : public testing::Test {
 protected:
  // The process's first call opens the driver, the platform and the store. It is made here, before
  // any fault.
  static void SetUpTestSuite() {
    Convolution convolution(FreshProblem(Operation::kForward));
    convolution.Run(DropIn(), 0, nullptr, 0);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }

  // Asks about and runs a new kernel while the k-th occurrence at `site` fails. Returns false if
  // there were fewer than k occurrences.
  static bool StepWithFault(Operation operation, const char* site, long kth) {
    SCOPED_TRACE(std::string(OperationName(operation)) + " " + site + " " + std::to_string(kth));
    const NothingStays nothing_stays;
    Convolution convolution(FreshProblem(operation));
    const Bytes expected = convolution.FillAndExpect(15);
    const size_t lent = 1 << 14;
    const GuardedMemory workspace(lent);
    const size_t before = FreeMemory();
    hostgpuInjectFault(site, kth);
    const Answer answer = Ask(DropIn(), Question::kFindEx, convolution, 1, workspace.data(), lent);
    const long asked = hostgpuFaultCount(site);
    EXPECT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
    if (answer.algorithms.empty()) return false;
    const auto& told = answer.algorithms[0];
    EXPECT_LE(told.workspace_bytes, lent);
    const cudnnStatus_t status =
        convolution.Run(DropIn(), told.algorithm, workspace.data(), told.workspace_bytes);
    const long counted = hostgpuFaultCount(site);
    hostgpuInjectFault(site, 0);
    if (status != CUDNN_STATUS_SUCCESS) {
      // A call may fail only if the fault hit the caller's own convolution.
      EXPECT_STREQ(site, "convolution");
      EXPECT_EQ(kth, asked + 1);
      EXPECT_EQ(counted, kth);
      convolution.TakeOutput();
    } else {
      EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
    }
    EXPECT_TRUE(convolution.NothingElseWasWritten());
    EXPECT_TRUE(workspace.GuardsAreIntact());
    ExpectNothingStays(before);
    return counted >= kth;
  }
};

class WhileMeasuring : public Faults {};

TEST_F(WhileMeasuring, EveryResourceQueryAndCallMayFail) {
  for (const char* site : {"alloc", "stream", "event", "handle", "query", "convolution"})
    for (const Operation operation : kOperations) {
      // Later occurrences are of the same kinds as the first, so only some later ones are made to
      // fail.
      for (long kth = 1; StepWithFault(operation, site, kth) && !HasFailure();) {
        kth += (kth < 12 ? 1 : kth < 100 ? 17 : 151) * (TotalWorkspace() ? 4 : 1);
      }
    }
  const nlohmann::json report = ReadReport();
  ASSERT_FALSE(report.is_null());
  EXPECT_FALSE(report["fallbacks"].empty());
  const std::vector<std::string> lines = LogLines();
  EXPECT_FALSE(lines.empty());
  // Each cause is logged once. In a log line, the cause comes after the layout ("nchw").
  std::set<std::string> causes;
  for (const std::string& line : lines) {
    EXPECT_TRUE(causes.insert(line.substr(line.rfind("nchw"))).second) << line;
  }
}

class WhilePiecesRun : public Faults {};

TEST_F(WhilePiecesRun, EveryPieceMayFail) {
  std::vector<ConvolutionProblem> problems;
  PrimedStore store;
  for (const Operation operation : kOperations)
    for (int i = 0; i < 2 * kImages; ++i) {
      problems.push_back(FreshProblem(operation));
      store.Add(problems.back(), {1, kImages}, DividedInto(1, kImages));
    }
  store.Write();
  for (size_t i = 0; i < problems.size(); ++i) {
    const long kth = static_cast<long>(i) % kImages + 1;
    const Scales scales{1, i % (2 * kImages) < kImages ? 0.0 : 1.0};
    SCOPED_TRACE(std::string(OperationName(problems[i].operation)) + " piece " +
                 std::to_string(kth) + " beta " + std::to_string(scales.beta));
    Convolution convolution(problems[i]);
    const Bytes expected = convolution.FillAndExpect(16, scales);
    hostgpuInjectFault("convolution", kth);
    const cudnnStatus_t status = convolution.Run(DropIn(), 0, nullptr, 0, scales);
    hostgpuInjectFault("convolution", 0);
    if (scales.beta != 0 && kth > 1) {
      // The pieces before the failed one are already added to the output. A second run would add
      // them twice, so ucudnn returns the error.
      EXPECT_EQ(status, CUDNN_STATUS_EXECUTION_FAILED);
      convolution.TakeOutput();
    } else {
      EXPECT_EQ(status, CUDNN_STATUS_SUCCESS);
      EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
    }
    // After a failed piece, the kernel runs undivided.
    EXPECT_EQ(convolution.Run(DropIn(), 0, nullptr, 0, scales), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(ConvolutionsRun(), 1);
    convolution.ExpectOutput(expected);
  }
  EXPECT_EQ(LogLines().size(), 1u);
}

// The output does not change until the partial gradients are summed into it. So the call can run
// again, whatever fails.
TEST_F(WhilePiecesRun, EveryPartialAndEverySumMayFail) {
  struct Trial {
    ConvolutionProblem problem;
    const char* site;
    long kth;
    Scales scales;
  };
  std::vector<Trial> trials;
  PrimedStore store;
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16})
    for (const double beta : {0.0, 1.0})
      for (const char* site : {"convolution", "sum"})
        // There is one sum for each partial, and one more sum into the output.
        for (long kth = 1; kth <= kImages + (*site == 's' ? 1 : 0); ++kth) {
          trials.push_back({FreshProblem(Operation::kBackwardFilter, type), site, kth, {1, beta}});
          store.Add(trials.back().problem, {1, kImages}, DividedInto(1, kImages));
        }
  store.Write();
  for (const Trial& trial : trials) {
    SCOPED_TRACE(std::string(DataTypeName(trial.problem.type)) + " " + trial.site + " " +
                 std::to_string(trial.kth) + " beta " + std::to_string(trial.scales.beta));
    Convolution convolution(trial.problem);
    const Bytes expected = convolution.FillAndExpect(18, trial.scales);
    const GuardedMemory workspace(PartialSumRoom(trial.problem));
    hostgpuInjectFault(trial.site, trial.kth);
    EXPECT_EQ(convolution.Run(DropIn(), 0, workspace.data(), workspace.bytes(), trial.scales),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(hostgpuFaultCount(trial.site), *trial.site == 's' ? trial.kth : trial.kth + 1);
    hostgpuInjectFault(trial.site, 0);
    EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
    ConvolutionsRun();
    EXPECT_EQ(convolution.Run(DropIn(), 0, workspace.data(), workspace.bytes(), trial.scales),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(ConvolutionsRun(), 1);
    convolution.ExpectOutput(expected, &workspace);
  }
}

class HostMemory : public Faults {};

TEST_F(HostMemory, EveryAllocationOfUcudnnMayFail) {
  if (!AllocationsCanFail()) GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail";
  // Under one budget for all kernels, only every fourth allocation is made to fail, because the
  // budget changes little of what this test covers.
  const int step = TotalWorkspace() ? 4 : 1, last = 400 / step;
  std::vector<ConvolutionProblem> problems;
  PrimedStore store;
  for (int i = 0; i < last; ++i) {
    problems.push_back(FreshProblem(kOperations[i % 3]));
    store.Add(problems.back(), {1, kImages}, DividedInto(1, kImages));
  }
  store.Write();
  long injected = 0, divided = 0;
  for (int i = 0; i < last; ++i) {
    const long kth = i / 3 * step + 1;
    SCOPED_TRACE("allocation " + std::to_string(kth));
    Convolution convolution(problems[i]);
    const Bytes expected = convolution.FillAndExpect(17);
    ConvolutionsRun();
    FailAllocation(kth);
    const Answer answer = Ask(DropIn(), Question::kFindEx, convolution, 1);
    const cudnnStatus_t status = convolution.Run(DropIn(), 0, nullptr, 0);
    injected += AllocationsSince() >= kth;
    EXPECT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(status, CUDNN_STATUS_SUCCESS);
    divided += ConvolutionsRun() > 1;
    convolution.ExpectOutput(expected);
  }
  EXPECT_GT(injected, 30 / step);
  EXPECT_GT(divided, 0);
}

// Tests a program that makes its first handle while allocations fail, under one budget.
class NewHandles : public Faults {
 protected:
  static void SetUpTestSuite() {
    // These calls create the process's interposer but no handle, so no device has a budget yet.
    cudnnTensorDescriptor_t descriptor = nullptr;
    EXPECT_EQ(DropIn().cudnnCreateTensorDescriptor(&descriptor), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(DropIn().cudnnDestroyTensorDescriptor(descriptor), CUDNN_STATUS_SUCCESS);
  }
};

TEST_F(NewHandles, EveryAllocationMayFail) {
  if (!AllocationsCanFail()) GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail";
  long kth = 0;
  for (bool failed = true; failed && !HasFailure();) {
    ++kth;
    SCOPED_TRACE("allocation " + std::to_string(kth));
    cudnnHandle_t handle = nullptr;
    FailAllocation(kth);
    EXPECT_EQ(DropIn().cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    failed = AllocationsSince() >= kth;
    EXPECT_EQ(DropIn().cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
  }
  EXPECT_GT(kth, 5);
  // Later handles use the budget.
  Convolution convolution(FreshProblem(Operation::kForward));
  const Bytes expected = convolution.FillAndExpect(19);
  for (int call = 0; call < 3; ++call) {
    EXPECT_EQ(convolution.Run(DropIn(), 1, nullptr, 0), CUDNN_STATUS_SUCCESS);
    EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
  }
  const nlohmann::json report = ReadReport();
  ASSERT_FALSE(report.is_null());
  ASSERT_TRUE(report.contains("total_workspace")) << report;
  EXPECT_EQ(report["total_workspace"]["total_bytes"], 64 << 10);
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"WhileMeasuring", {{"UCUDNN_DATABASE", "none"}, {"UCUDNN_WORKSPACE_LIMIT", "8KiB"}}},
       {"WhilePiecesRun", {{"UCUDNN_TUNE", "off"}}},
       {"HostMemory", {{"UCUDNN_TUNE", "off"}, {"UCUDNN_REPORT", ""}}},
       {"NewHandles", {{"UCUDNN_TOTAL_WORKSPACE", "64KiB"}}}});
}
