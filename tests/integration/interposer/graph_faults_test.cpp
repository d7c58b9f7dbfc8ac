// Tests programs of the graph API while one allocation inside libucudnn fails: while plans are
// made, executed, or turned into native CUDA graphs. The result stays right in the workspace that
// the plan reports; any access beyond this workspace faults.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "cases.h"
#include "cudnn/backend.h"
#include "faults.h"
#include "layer.h"
#include "libraries.h"
#include "queries.h"
#include "suites.h"
#include "tests/support/deviceless_cudnn.h"

namespace ucudnn::test {
namespace {

using cudnn::BackendDescriptor;

constexpr int kImages = 4;
constexpr int kEngine = 1;  // the stand-in's GEMM, which is exact on whole numbers
// Pieces fit kLimit, and the undivided call does not. With AVX-512 the limit is lower, because
// oneDNN needs less workspace.
const bool kNeedsLess = __builtin_cpu_supports("avx512f") != 0;
const size_t kLimit = kNeedsLess ? 16384 : 65536;
const char* const kLimitText = kNeedsLess ? "16KiB" : "64KiB";

// Returns the number of the allocation to fail after the k-th. Later allocations repeat the first
// ones, so some are skipped. A plan in tiles makes thousands of allocations.
long Next(long kth) { return kth + (kth < 40 ? 1 : std::max(7L, EveryFault() ? 0 : kth / 100)); }

// Image() returns a problem with one image, which runs as tiles within this limit.
constexpr char kTiledLimitText[] = "192KiB";
constexpr size_t kTiledLimit = size_t{192} << 10;
ConvolutionProblem Image() {
  return AsRead(ProblemWith({.n = 1, .c = 16, .k = 16, .x = {1, 64, 64}}));
}
// Returns a problem that differs from all earlier ones: its distance between images is larger each
// time.
ConvolutionProblem FreshImage() {
  static int next = 0;
  ConvolutionProblem problem = Image();
  problem.x_strides[0] += 4 * ++next;
  return AsRead(problem);
}

// A program with one plan and a handle.
class Program {
 public:
  explicit Program(const ConvolutionProblem& problem = FreshLayer(Operation::kForward, kImages))
      : convolution_(problem),
        graph_(convolution_.problem(), {}, DropIn(), {convolution_.handle(), nullptr}) {
    convolution_.FillIntegers(21);
    expected_ = convolution_.Expected();
    EXPECT_EQ(cudnnSetStream(convolution_.handle(), stream_.get()), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }

  void MakePlan() { plan_ = graph_.Plan(kEngine); }
  void ReadSize() {
    ASSERT_TRUE(plan_);
    const auto bytes = cudnn::PlanWorkspace(DropIn(), plan_->get());
    ASSERT_TRUE(bytes.ok()) << bytes.message();
    workspace_.emplace(*bytes);
  }
  size_t bytes() const { return workspace_->bytes(); }

  void MakePack() {
    pack_ = PackOf(convolution_, workspace_->data());
    ASSERT_TRUE(pack_);
  }

  // Makes the plan and the variant pack. Expects that the workspace is at most `limit` bytes.
  void Prepare(size_t limit) {
    MakePlan();
    ReadSize();
    MakePack();
    ASSERT_LE(bytes(), limit);
  }

  // Executes the plan on `handle`, which may be unknown to ucudnn.
  cudnnStatus_t Execute(cudnnHandle_t handle) {
    return cudnnBackendExecute(handle, plan_->get(), pack_->get());
  }
  cudnnStatus_t Execute() { return Execute(convolution_.handle()); }
  cudnnStatus_t Populate(cudaGraph_t graph) {
    return cudnnBackendPopulateCudaGraph(convolution_.handle(), plan_->get(), pack_->get(), graph);
  }
  cudnnStatus_t Update(cudaGraph_t graph) {
    return cudnnBackendUpdateCudaGraph(convolution_.handle(), plan_->get(), pack_->get(), graph);
  }
  void Launch(cudaGraph_t graph) {
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(executable, stream_.get()), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  }
  // Waits for the stream, and checks the result of the last execution or launch.
  void Check() {
    EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
    convolution_.ExpectOutput(expected_, &*workspace_);
  }

 private:
  const OwnStream stream_;
  Convolution convolution_;
  const Graph graph_;
  Bytes expected_;
  std::optional<BackendDescriptor> plan_;
  std::optional<GuardedMemory> workspace_;
  std::optional<BackendDescriptor> pack_;
};

class GraphPlans : public testing::Test {
 protected:
  // The process's first plan opens the driver, the platform and the store. It is made here, before
  // any fault.
  static void SetUpTestSuite() {
    Program program;
    program.MakePlan();
    program.ReadSize();
    EXPECT_LE(program.bytes(), kLimit);
  }
  void SetUp() override {
    if (!AllocationsCanFail()) {
      GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail";
    }
  }
};

// For each k, makes and executes a plan of a fresh() problem while the k-th allocation fails.
// Expects right results, and that at least two plans keep the `limit`. Returns the number of
// convolutions in a call of the last plan, which met no fault.
long FailWhilePlansAreMade(ConvolutionProblem (*fresh)(), size_t limit) {
  long limited = 0, kth = 1, ran = 0;
  for (bool failed = true; failed && !testing::Test::HasFailure(); kth = Next(kth)) {
    SCOPED_TRACE("allocation " + std::to_string(kth));
    Program program(fresh());
    FailAllocation(kth);
    program.MakePlan();
    program.ReadSize();
    failed = AllocationsSince() >= kth;
    if (testing::Test::HasFatalFailure()) return 0;
    limited += program.bytes() <= limit ? 1 : 0;
    program.MakePack();
    for (int call = 0; call < 2; ++call) {
      ConvolutionsRun();
      EXPECT_EQ(program.Execute(), CUDNN_STATUS_SUCCESS);
      ran = ConvolutionsRun();
      program.Check();
    }
  }
  EXPECT_GT(kth, 100);
  // The last plan met no fault and keeps the limit. At least one plan that met a fault must keep
  // the limit as well.
  EXPECT_GT(limited, 1);
  return ran;
}

TEST_F(GraphPlans, EveryAllocationMayFailWhileAPlanIsMade) {
  FailWhilePlansAreMade([] { return FreshLayer(Operation::kForward, kImages); }, kLimit);
}

// For each k, executes the prepared plan while the k-th allocation fails, on a new handle of the
// real library that ucudnn does not know.
void FailWhileItIsExecuted(Program& program) {
  long kth = 1;
  for (bool failed = true; failed && !testing::Test::HasFailure(); kth = Next(kth)) {
    SCOPED_TRACE("allocation " + std::to_string(kth));
    cudnnHandle_t handle = nullptr;
    ASSERT_EQ(Undivided().cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    FailAllocation(kth);
    EXPECT_EQ(program.Execute(handle), CUDNN_STATUS_SUCCESS);
    failed = AllocationsSince() >= kth;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    program.Check();
    EXPECT_EQ(DropIn().cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
  }
  EXPECT_GT(kth, 2);
}

TEST_F(GraphPlans, EveryAllocationMayFailWhileAPlanIsExecuted) {
  Program program;
  program.Prepare(kLimit);
  FailWhileItIsExecuted(program);
}

// Makes a native graph of the program's plan while the k-th allocation fails. Then calls
// look(graph), launches and updates the graph, and checks results. An incomplete update must not
// report success. Returns false if there were fewer than k allocations.
template <typename Look>
bool FailsInNativeGraph(Program& program, long kth, const Look& look) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  FailAllocation(kth);
  EXPECT_EQ(program.Populate(graph), CUDNN_STATUS_SUCCESS);
  const bool failed = AllocationsSince() >= kth;
  look(graph);
  program.Launch(graph);
  program.Check();
  FailAllocation(kth);
  const cudnnStatus_t updated = program.Update(graph);
  const bool failed_update = AllocationsSince() >= kth;
  EXPECT_TRUE(updated == CUDNN_STATUS_SUCCESS || failed_update) << updated;
  EXPECT_EQ(program.Update(graph), CUDNN_STATUS_SUCCESS);
  program.Launch(graph);
  program.Check();
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  return failed;
}

TEST_F(GraphPlans, EveryAllocationMayFailWhileANativeGraphIsMade) {
  long kth = 1;
  for (bool failed = true; failed && !HasFailure(); kth = Next(kth)) {
    SCOPED_TRACE("allocation " + std::to_string(kth));
    Program program;
    program.Prepare(kLimit);
    failed = FailsInNativeGraph(program, kth, [](cudaGraph_t) {});
  }
  // Graphs of pieces make more than three allocations. Under a budget there are no graphs of
  // pieces, because a native graph cannot use ucudnn's workspace.
  EXPECT_GT(kth, InBudget() ? 1 : 3);
}

class TiledPlans : public GraphPlans {
 protected:
  static void SetUpTestSuite() {}
};

TEST_F(TiledPlans, EveryAllocationMayFailWhileAPlanIsMade) {
  EXPECT_GE(FailWhilePlansAreMade(FreshImage, kTiledLimit), InBudget() ? 1 : 4);
}

TEST_F(TiledPlans, EveryAllocationMayFailWhileAPlanIsExecuted) {
  Program program(Image());
  program.Prepare(kTiledLimit);
  FailWhileItIsExecuted(program);
}

TEST_F(TiledPlans, EveryAllocationMayFailWhileANativeGraphIsMade) {
  Program program(Image());
  program.Prepare(kTiledLimit);
  long kth = 1;
  size_t nodes = 0;
  for (bool failed = true; failed && !HasFailure(); kth = Next(kth)) {
    SCOPED_TRACE("allocation " + std::to_string(kth));
    failed = FailsInNativeGraph(program, kth, [&](cudaGraph_t graph) {
      EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
      EXPECT_TRUE(nodes == 1 || nodes >= 4) << "neither the whole nor all tiles: " << nodes;
    });
  }
  // The last graph met no fault. Under a budget it has a single node, because a native graph cannot
  // use ucudnn's workspace. Without a budget it has a node for each tile.
  if (InBudget()) {
    EXPECT_EQ(nodes, 1u);
  } else {
    EXPECT_GE(nodes, 4u);
    EXPECT_GT(kth, 3);
  }
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  ucudnn::test::Environment whole, tiled;
  // A budget replaces the limits.
  if (!ucudnn::test::InBudget()) {
    whole.emplace_back("UCUDNN_WORKSPACE_LIMIT", ucudnn::test::kLimitText);
    tiled.emplace_back("UCUDNN_WORKSPACE_LIMIT", ucudnn::test::kTiledLimitText);
  }
  return ucudnn::test::RunSuites(
      argc, argv, {{"GraphPlans", whole}, {"TiledPlans", tiled}},
      {{"UCUDNN_ENGINES", "both"}, {"UCUDNN_DATABASE", "none"}, {"UCUDNN_REPORT", ""}});
}
