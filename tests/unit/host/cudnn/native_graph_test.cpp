// Tests plans that are turned into CUDA graphs (cudnnBackendPopulateCudaGraph and its update) on
// the stand-in, against naive loops.
#include <cuda.h>

#include <algorithm>

#include "shim/host/hostgpu.h"
#include "tests/unit/host/cudnn/backend_graph.h"

namespace hostgpu::test {
namespace {

// Makes `call` with the plan, a pack of the convolution's tensors, and a CUDA graph of the
// application.
using Call = decltype(&cudnnBackendPopulateCudaGraph);
cudnnStatus_t With(Call call, const Plan& plan, const Convolution& c, void* workspace,
                   CUgraph graph) {
  const auto use = [&](auto pack) { return call(c.handle, plan.descriptor.handle, pack, graph); };
  return plan.With(ConvolutionGraph::Ids(), {c.x.data, c.w.data, c.y.data}, workspace, use);
}
cudnnStatus_t Populate(const Plan& plan, const Convolution& c, void* workspace, CUgraph graph) {
  return With(cudnnBackendPopulateCudaGraph, plan, c, workspace, graph);
}
cudnnStatus_t Update(const Plan& plan, const Convolution& c, void* workspace, CUgraph graph) {
  return With(cudnnBackendUpdateCudaGraph, plan, c, workspace, graph);
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
      // Winograd supports this shape, too.
      ConvolutionCase c{.operation = operation,
                        .x = {2, 16, 1, 8, 8},
                        .w = {16, 16, 1, 3, 3},
                        .pad = {0, 1, 1},
                        .alpha = 2,
                        .beta = operation == Operation::kBackwardFilter ? 1.0 : 0.0};
      Convolution first(c), second(c);
      first.FillAll(random);
      second.FillAll(random);
      Plan plan;
      if (!plan.Build(ConvolutionGraph(first).graph, index, 0)) continue;
      DeviceMemory workspace(static_cast<size_t>(plan.Workspace())),
          other_workspace(static_cast<size_t>(plan.Workspace()));
      Graph graph;
      const bool winograd = index == (operation == Operation::kForward ? 3 : 2);
      EXPECT_EQ(SaysNative(plan), !winograd);
      if (winograd) {
        EXPECT_EQ(Populate(plan, first, workspace.data, graph),
                  CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API);
        EXPECT_EQ(graph.Nodes(), 0u);
        continue;
      }
      ++ran;
      ASSERT_OK(Populate(plan, first, workspace.data, graph));
      const Executable populated(graph);
      cudaDeviceSynchronize();
      EXPECT_TRUE(first.Result().Matches()) << "ran before it was launched";
      populated.Run(nullptr);
      first.ComputeExpected();
      EXPECT_TRUE(first.Result().Matches());
      // Update gives the node other operands. An executable graph that was instantiated before the
      // update keeps the former operands.
      ASSERT_OK(Update(plan, second, other_workspace.data, graph));
      EXPECT_EQ(graph.Nodes(), 1u);
      populated.Run(nullptr);
      first.ComputeExpected();
      EXPECT_TRUE(first.Result().Matches());
      EXPECT_TRUE(second.Result().Matches());
      cudaGraphExecUpdateResultInfo info{};
      ASSERT_OK(cudaGraphExecUpdate(populated, graph, &info));
      populated.Run(nullptr);
      second.ComputeExpected();
      EXPECT_TRUE(second.Result().Matches());
      EXPECT_TRUE(first.Result().Matches());
    }
  }
  EXPECT_EQ(ran, 9);
}

TEST(NativeGraph, TakesOnlyAGraphOfItsOwn) {
  Convolution convolution(ConvolutionCase{}, 18);
  const ConvolutionGraph description(convolution);
  Plan plan, equal, other;
  ASSERT_TRUE(plan.Build(description.graph, 0, 0));
  ASSERT_TRUE(equal.Build(description.graph, 0, 0));
  ASSERT_TRUE(other.Build(description.graph, 1, 0));
  DeviceMemory workspace(static_cast<size_t>(other.Workspace()));
  Graph graph, empty;
  EXPECT_EQ(Populate(plan, convolution, nullptr, nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  ASSERT_OK(Populate(plan, convolution, nullptr, graph));
  EXPECT_EQ(Populate(plan, convolution, nullptr, graph),
            CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
  EXPECT_EQ(graph.Nodes(), 1u);
  EXPECT_OK(Update(equal, convolution, nullptr, graph));
  EXPECT_EQ(Update(other, convolution, workspace.data, graph),
            CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
  EXPECT_EQ(Update(plan, convolution, nullptr, empty), CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
  // A plan that needs workspace is refused if it gets none.
  EXPECT_EQ(Populate(other, convolution, nullptr, empty), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(empty.Nodes(), 0u);
  hostgpuInjectFault("native", 1);
  EXPECT_EQ(Populate(plan, convolution, nullptr, empty), CUDNN_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(empty.Nodes(), 0u);
  hostgpuInjectFault("native", 0);
  // An executable graph cannot be updated to another kernel.
  Graph others;
  ASSERT_OK(Populate(other, convolution, workspace.data, others));
  const Executable executable(graph);
  cudaGraphExecUpdateResultInfo info{};
  EXPECT_EQ(cudaGraphExecUpdate(executable, others, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorTopologyChanged);
  executable.Run(nullptr);
  convolution.ComputeExpected();
  EXPECT_TRUE(convolution.Result().Matches());
}

}  // namespace
}  // namespace hostgpu::test
