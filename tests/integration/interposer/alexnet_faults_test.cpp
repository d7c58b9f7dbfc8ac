// Tests a training step of five small convolutions like AlexNet's, in which one fault is injected:
// while kernels are measured at their first call, while pieces run, or at an allocation of host
// memory inside libucudnn. The result stays right, or the caller gets the real error of its own
// call; no device memory stays allocated.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "cases.h"
#include "faults.h"
#include "free_memory.h"
#include "layer.h"
#include "libraries.h"
#include "primed_store.h"
#include "queries.h"
#include "shim/host/hostgpu.h"
#include "suites.h"
#include "tests/support/problem.h"

namespace ucudnn::test {
namespace {

constexpr int kImages = 4;
constexpr size_t kLent = 1 << 14;

// Layers with AlexNet's filters, strides and paddings, but with fewer channels and smaller images.
struct Shape {
  const char* name;
  int c, size, k, filter, pad, stride;
};
constexpr Shape kAlexNet[] = {{"conv1", 3, 36, 8, 11, 2, 4},
                              {"conv2", 8, 10, 24, 5, 2, 1},
                              {"conv3", 24, 6, 32, 3, 1, 1},
                              {"conv4", 32, 6, 24, 3, 1, 1},
                              {"conv5", 24, 6, 24, 3, 1, 1}};

struct Kernel {
  const Shape* shape;
  Operation operation;
  Extra extra = Extra::kNone;
  int images = kImages;
};

// Returns the factor by which tests try fewer faults. It is 8 under one budget for all kernels,
// because the budget changes little of what these tests cover.
long Thinning() { return TotalWorkspace() ? 8 : 1; }

// Returns the distance from one tried fault to the next: `of` * Thinning(). With
// INTERPOSER_TEST_FAULTS=every (tools/check --full), the distance is Thinning().
long BetweenFaults(long of) { return (EveryFault() ? 1 : of) * Thinning(); }

// Returns a training step: forward (conv5 with bias and activation), then backward.
std::vector<Kernel> Step() {
  std::vector<Kernel> step;
  for (const Operation operation : kOperations)
    for (const Shape& shape : kAlexNet) {
      const bool last = &shape == std::end(kAlexNet) - 1;
      const bool bias = operation == Operation::kForward && last;
      step.push_back({&shape, operation, bias ? Extra::kRelu : Extra::kNone});
    }
  return step;
}

// Each `variant` has its own distance between images, so ucudnn treats it as a separate kernel.
ConvolutionProblem ProblemOf(const Kernel& kernel, int variant) {
  const Shape& shape = *kernel.shape;
  ConvolutionProblem problem = ProblemWith({.operation = kernel.operation,
                                            .n = kernel.images,
                                            .c = shape.c,
                                            .k = shape.k,
                                            .x = {1, shape.size, shape.size},
                                            .w = {1, shape.filter, shape.filter},
                                            .pad = {0, shape.pad, shape.pad},
                                            .stride = {1, shape.stride, shape.stride}});
  problem.x_strides[0] += 4 * (variant % 32);
  problem.y_strides[0] += 4 * (variant / 32);
  return AsRead(problem);
}

std::string NameOf(const Kernel& kernel) {
  return std::string(kernel.shape->name) + " " + OperationName(kernel.operation);
}

// A kernel of the step with its operands and its expected result.
class Layer {
 public:
  Layer(const Kernel& kernel, int variant)
      : kernel_(kernel), convolution_(ProblemOf(kernel, variant), kernel.extra), workspace_(kLent) {
    convolution_.FillIntegers(18);
    expected_ = convolution_.Expected();
  }

  // Asks for an algorithm and runs it, as a framework does.
  void AskAndRun() {
    const Answer answer =
        Ask(DropIn(), Question::kFindEx, convolution_, 1, workspace_.data(), kLent);
    asked_ = answer.status;
    if (asked_ != CUDNN_STATUS_SUCCESS || answer.algorithms.empty()) return;
    algorithm_ = answer.algorithms[0].algorithm;
    workspace_bytes_ = answer.algorithms[0].workspace_bytes;
    convolutions_before_run_ = hostgpuFaultCount("convolution");
    Run();
  }
  void Run() {
    ran_ = convolution_.Run(DropIn(), algorithm_, workspace_.data(), workspace_bytes_, {});
  }
  cudnnStatus_t ran() const { return ran_; }
  long convolutions_before_run() const { return convolutions_before_run_; }

  // Expects that the last run succeeded and wrote the expected result and nothing else.
  void Check() {
    EXPECT_EQ(asked_, CUDNN_STATUS_SUCCESS) << NameOf(kernel_);
    EXPECT_EQ(ran_, CUDNN_STATUS_SUCCESS) << NameOf(kernel_);
    EXPECT_TRUE(convolution_.OutputEquals(expected_, convolution_.TakeOutput())) << NameOf(kernel_);
    CheckSurroundings();
  }
  void Discard() { convolution_.TakeOutput(); }

 private:
  void CheckSurroundings() {
    EXPECT_LE(workspace_bytes_, kLent) << NameOf(kernel_);
    EXPECT_TRUE(convolution_.NothingElseWasWritten()) << NameOf(kernel_);
    EXPECT_TRUE(workspace_.GuardsAreIntact()) << NameOf(kernel_);
  }
  Kernel kernel_;
  Convolution convolution_;
  GuardedMemory workspace_;
  Bytes expected_;
  cudnnStatus_t asked_ = CUDNN_STATUS_NOT_INITIALIZED, ran_ = CUDNN_STATUS_NOT_INITIALIZED;
  int algorithm_ = 0;
  size_t workspace_bytes_ = 0;
  long convolutions_before_run_ = 0;
};

class AlexNet : public testing::Test {
 protected:
  // The process's first call opens the driver, the platform and the store. It is made here, so that
  // no test counts its allocations.
  static void SetUpTestSuite() {
    Layer layer(Step()[0], next_variant_++);
    layer.AskAndRun();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  static int next_variant_;
};
int AlexNet::next_variant_ = 0;

class ColdStep : public AlexNet {
 protected:
  // Asks about and runs each kernel of the step as a new kernel, while the k-th occurrence at
  // `site` fails. Repeats this for every BetweenFaults(6)-th k. Returns how many faults occurred.
  static size_t FailEvery(const char* site) {
    size_t met = 0;
    for (const Kernel& kernel : Step()) {
      bool more = true;
      for (long kth = 1; more && !HasFailure(); kth += BetweenFaults(6)) {
        SCOPED_TRACE(NameOf(kernel) + " " + site + " " + std::to_string(kth));
        const NothingStays nothing_stays;
        Layer layer(kernel, next_variant_++);
        const size_t before = FreeMemory();
        hostgpuInjectFault(site, kth);
        layer.AskAndRun();
        more = hostgpuFaultCount(site) >= kth;
        hostgpuInjectFault(site, 0);
        met += more;
        if (layer.ran() != CUDNN_STATUS_SUCCESS) {
          // A call may fail only if the fault hit the caller's own convolution.
          EXPECT_STREQ(site, "convolution");
          EXPECT_EQ(layer.ran(), CUDNN_STATUS_EXECUTION_FAILED);
          EXPECT_EQ(kth, layer.convolutions_before_run() + 1);
          layer.Discard();
          layer.Run();
        }
        layer.Check();
        ExpectNothingStays(before);
      }
    }
    return met;
  }
};

TEST_F(ColdStep, EveryResourceAndQueryMayFail) {
  size_t met = 0;
  for (const char* site : {"alloc", "stream", "event", "handle", "query"}) met += FailEvery(site);
  EXPECT_GE(met, Step().size());
}

TEST_F(ColdStep, EveryConvolutionMayFail) { EXPECT_GE(FailEvery("convolution"), Step().size()); }

class WarmStep : public AlexNet {
 protected:
  // A kernel never divides again after one of its pieces failed. So each fault in a convolution has
  // a variant of the step to itself, whose number is the number of the failing convolution. All
  // other faults occur in variant 0.
  static constexpr int kVariants = 96;
  static void SetUpTestSuite() {
    std::vector<int> variants = {0};
    for (long kth = 1; kth < kVariants; kth += Distance()) {
      variants.push_back(static_cast<int>(kth));
    }
    PrimedStore store;
    for (const Kernel& kernel : Step()) {
      for (const int variant : variants) {
        store.Add(ProblemOf(kernel, variant), {1, kImages}, DividedInto(1, kImages));
      }
    }
    store.Write();
    AlexNet::SetUpTestSuite();
  }

  // Runs a step in which the k-th occurrence at `site` fails, then a step without faults. Returns
  // false if there were fewer than k occurrences.
  static bool StepWithFault(const char* site, long kth) {
    const NothingStays nothing_stays;
    std::vector<std::unique_ptr<Layer>> layers;
    const int variant = std::strcmp(site, "convolution") == 0 ? static_cast<int>(kth) : 0;
    for (const Kernel& kernel : Step()) layers.push_back(std::make_unique<Layer>(kernel, variant));
    const size_t before = FreeMemory();
    hostgpuInjectFault(site, kth);
    for (const auto& layer : layers) layer->AskAndRun();
    const long counted = hostgpuFaultCount(site);
    hostgpuInjectFault(site, 0);
    if (kth == 0) occurred_[site] = counted;
    for (const auto& layer : layers) layer->Check();
    for (const auto& layer : layers) layer->Run();
    for (const auto& layer : layers) layer->Check();
    ExpectNothingStays(before);
    return counted >= kth;
  }
  // Returns the distance from one tried fault at a site to the next.
  static long Distance() { return BetweenFaults(10); }
  static std::map<std::string, long> occurred_;
};
std::map<std::string, long> WarmStep::occurred_;

TEST_F(WarmStep, EveryPieceQueryAndResourceMayFail) {
  for (const char* site : {"alloc", "stream", "event", "handle", "query", "convolution"}) {
    StepWithFault(site, 0);
    for (long kth = 1; kth <= occurred_[site] && !HasFailure(); kth += Distance()) {
      SCOPED_TRACE(std::string(site) + " " + std::to_string(kth));
      // Under a budget, a step may allocate less often than the first step did: memory of earlier
      // work is reused if that work has finished.
      const bool met = StepWithFault(site, kth);
      EXPECT_TRUE(met || (TotalWorkspace() && std::strcmp(site, "alloc") == 0));
    }
  }
  // Most kernels must have run in pieces.
  EXPECT_GE(occurred_["convolution"], static_cast<long>(Step().size()) * 2);
  EXPECT_LT(occurred_["convolution"], kVariants);
}

// --- Host memory ---------------------------------------------------------------------------------

// Kernels with two images. They can be divided, and few of their sizes are measured.
std::vector<Kernel> KernelsShortOfMemory() {
  return {{&kAlexNet[4], Operation::kForward, Extra::kRelu, 2},
          {&kAlexNet[2], Operation::kBackwardFilter, Extra::kNone, 2}};
}

// Asks about and runs `kernel` while the k-th allocation fails. Returns false if there were fewer
// than k allocations.
bool RunWithoutMemory(const Kernel& kernel, int variant, long kth) {
  SCOPED_TRACE(NameOf(kernel) + " allocation " + std::to_string(kth));
  const NothingStays nothing_stays;
  Layer layer(kernel, variant);
  const size_t before = FreeMemory();
  FailAllocation(kth);
  layer.AskAndRun();
  const bool failed = AllocationsSince() >= kth;
  layer.Check();
  ExpectNothingStays(before);
  return failed;
}

class Measuring : public AlexNet {};

TEST_F(Measuring, EveryAllocationMayFailWhileMeasuringAndStoring) {
  if (!AllocationsCanFail()) GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail";
  for (const Kernel& kernel : KernelsShortOfMemory()) {
    long kth = 1;
    while (RunWithoutMemory(kernel, next_variant_++, kth) && !HasFailure()) kth += Thinning();
    EXPECT_GT(kth, 100);
  }
}

constexpr int kKernelsOfAProcess = 8;
constexpr char kFirstVariable[] = "ALEXNET_FAULTS_FIRST";

std::string DonePath() { return Folder() + "/done"; }

class Reporting : public AlexNet {};

// EveryAllocationMayFailWhileReadingAndReporting runs this test in many processes. In each process
// different allocations fail. In a single process, each report would be longer than the one before,
// because a report lists all kernels of its process.
TEST_F(Reporting, SomeAllocationsFail) {
  const char* const first = std::getenv(kFirstVariable);
  if (first == nullptr) GTEST_SKIP() << "runs for EveryAllocationMayFail";
  bool failed = false;
  for (int i = 0; i < kKernelsOfAProcess; ++i) {
    failed |= RunWithoutMemory(Step()[i], 0, std::atol(first) + i);
  }
  if (!failed) std::ofstream(DonePath()) << "none so late\n";
}

TEST_F(Reporting, EveryAllocationMayFailWhileReadingAndReporting) {
  if (!AllocationsCanFail()) GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail";
  for (int i = 0; i < kKernelsOfAProcess; ++i) {
    Layer layer(Step()[i], 0);
    layer.AskAndRun();
    layer.Check();
  }
  long first = 1;
  for (; !std::filesystem::exists(DonePath()) && !HasFailure();
       first += kKernelsOfAProcess * Thinning()) {
    TestProcess process("Reporting.SomeAllocationsFail", "report.json",
                        {{kFirstVariable, std::to_string(first)}});
    EXPECT_TRUE(process.Passed()) << "from allocation " << first;
  }
  std::printf("%ld allocations\n", first);
  EXPECT_GT(first, 100);
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"ColdStep",
        {{"UCUDNN_DATABASE", "none"}, {"UCUDNN_REPORT", ""}, {"UCUDNN_WORKSPACE_LIMIT", "8KiB"}}},
       {"WarmStep", {{"UCUDNN_TUNE", "off"}}},
       {"Measuring", {{"UCUDNN_REPORT", ""}, {"UCUDNN_WORKSPACE_LIMIT", "8KiB"}}},
       {"Reporting", {{"UCUDNN_WORKSPACE_LIMIT", "8KiB"}}}});
}
