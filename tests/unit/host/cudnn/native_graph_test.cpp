// Tests plans that describe themselves as CUDA graphs (cudnnBackendPopulateCudaGraph and its
// update) on the stand-in, against naive loops.
#include <cuda.h>

#include <algorithm>

#include "shim/host/hostgpu.h"
#include "tests/unit/host/cudnn/backend_graph.h"

namespace hostgpu::test {
namespace {

// An application's CUDA graph, which a plan may fill.
struct CudaGraph {
  CudaGraph() { EXPECT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS); }
  ~CudaGraph() { cuGraphDestroy(graph); }
  size_t Nodes() const {
    size_t nodes = 0;
    EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
    return nodes;
  }
  CUgraph graph = nullptr;
};

struct Executable {
  explicit Executable(const CudaGraph& graph) {
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph.graph, 0), cudaSuccess);
  }
  ~Executable() { cudaGraphExecDestroy(exec); }
  void Run() const {
    EXPECT_EQ(cudaGraphLaunch(exec, nullptr), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  cudaGraphExec_t exec = nullptr;
};

cudnnStatus_t Populate(const Plan& plan, const Convolution& c, void* workspace, CUgraph graph) {
  return plan.With(ConvolutionGraph::Ids(), {c.x.data, c.w.data, c.y.data}, workspace,
                   [&](cudnnBackendDescriptor_t pack) {
                     return cudnnBackendPopulateCudaGraph(c.handle, plan.descriptor.handle, pack,
                                                          graph);
                   });
}
cudnnStatus_t Update(const Plan& plan, const Convolution& c, void* workspace, CUgraph graph) {
  return plan.With(ConvolutionGraph::Ids(), {c.x.data, c.w.data, c.y.data}, workspace,
                   [&](cudnnBackendDescriptor_t pack) {
                     return cudnnBackendUpdateCudaGraph(c.handle, plan.descriptor.handle, pack,
                                                        graph);
                   });
}

bool SaysNative(const Plan& plan) {
  const auto notes = plan.BehaviorNotes();
  return std::count(notes.begin(), notes.end(),
                    CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API) == 1;
}

TEST(NativeGraph, OfEveryEngineThatSaysSoComputesWhenItIsLaunched) {
  std::mt19937 random(17);
  int ran = 0;
  for (const Operation operation : kOperations) {
    for (int64_t index = 0; index < 4; ++index) {
      SCOPED_TRACE("operation " + std::to_string(static_cast<int>(operation)) + " engine " +
                   std::to_string(index));
      ConvolutionCase c;
      c.operation = operation;
      c.x = {2, 16, 1, 8, 8};  // Winograd takes it, too
      c.w = {16, 16, 1, 3, 3};
      c.pad = {0, 1, 1};
      c.alpha = 2;
      c.beta = operation == Operation::kBackwardFilter ? 1 : 0;
      Convolution first(c), second(c);
      first.FillAll(random);
      second.FillAll(random);
      Plan plan;
      if (!plan.Build(ConvolutionGraph(first).graph, index, 0)) continue;
      DeviceBytes workspace(static_cast<size_t>(plan.Workspace())),
          other_workspace(static_cast<size_t>(plan.Workspace()));
      CudaGraph graph;
      const bool winograd = index == (operation == Operation::kForward ? 3 : 2);
      EXPECT_EQ(SaysNative(plan), !winograd);
      if (winograd) {
        EXPECT_EQ(Populate(plan, first, workspace.data, graph.graph),
                  CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API);
        EXPECT_EQ(graph.Nodes(), 0u);
        continue;
      }
      ++ran;
      ASSERT_EQ(Populate(plan, first, workspace.data, graph.graph), CUDNN_STATUS_SUCCESS);
      const Executable populated(graph);
      cudaDeviceSynchronize();
      EXPECT_TRUE(first.Result().Matches()) << "ran before it was launched";
      populated.Run();
      first.ComputeExpected();
      EXPECT_TRUE(first.Result().Matches());
      // The node gets other operands; what was instantiated before keeps its own.
      ASSERT_EQ(Update(plan, second, other_workspace.data, graph.graph), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(graph.Nodes(), 1u);
      populated.Run();
      first.ComputeExpected();
      EXPECT_TRUE(first.Result().Matches());
      EXPECT_TRUE(second.Result().Matches());
      cudaGraphExecUpdateResultInfo info{};
      ASSERT_EQ(cudaGraphExecUpdate(populated.exec, graph.graph, &info), cudaSuccess);
      populated.Run();
      second.ComputeExpected();
      EXPECT_TRUE(second.Result().Matches());
      EXPECT_TRUE(first.Result().Matches());
    }
  }
  EXPECT_EQ(ran, 9);
}

TEST(NativeGraph, TakesOnlyAGraphOfItsOwn) {
  std::mt19937 random(18);
  Convolution convolution{ConvolutionCase{}};
  convolution.FillAll(random);
  const ConvolutionGraph description(convolution);
  Plan plan, equal, other;
  ASSERT_TRUE(plan.Build(description.graph, 0, 0));
  ASSERT_TRUE(equal.Build(description.graph, 0, 0));
  ASSERT_TRUE(other.Build(description.graph, 1, 0));
  DeviceBytes workspace(static_cast<size_t>(other.Workspace()));
  CudaGraph graph, empty;
  EXPECT_EQ(Populate(plan, convolution, nullptr, nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  ASSERT_EQ(Populate(plan, convolution, nullptr, graph.graph), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Populate(plan, convolution, nullptr, graph.graph),
            CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
  EXPECT_EQ(graph.Nodes(), 1u);
  EXPECT_EQ(Update(equal, convolution, nullptr, graph.graph), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Update(other, convolution, workspace.data, graph.graph),
            CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
  EXPECT_EQ(Update(plan, convolution, nullptr, empty.graph),
            CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
  // A plan is not taken without the workspace that it needs, either.
  EXPECT_EQ(Populate(other, convolution, nullptr, empty.graph),
            CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(empty.Nodes(), 0u);
  hostgpuInjectFault("native", 1);
  EXPECT_EQ(Populate(plan, convolution, nullptr, empty.graph), CUDNN_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(empty.Nodes(), 0u);
  hostgpuInjectFault("native", 0);
  // An executable graph cannot be updated to another kernel.
  CudaGraph others;
  ASSERT_EQ(Populate(other, convolution, workspace.data, others.graph), CUDNN_STATUS_SUCCESS);
  const Executable executable(graph);
  cudaGraphExecUpdateResultInfo info{};
  EXPECT_EQ(cudaGraphExecUpdate(executable.exec, others.graph, &info),
            cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorTopologyChanged);
  executable.Run();
  convolution.ComputeExpected();
  EXPECT_TRUE(convolution.Result().Matches());
}

}  // namespace
}  // namespace hostgpu::test
