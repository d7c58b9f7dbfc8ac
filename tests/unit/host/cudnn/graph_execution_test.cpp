// Tests plans of the graph API on the stand-in against naive loops: every engine and knob setting,
// and the workspace. Also tests plans for another batch that are made from a plan's JSON.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/host/cudnn/backend_graph.h"

namespace hostgpu::test {
namespace {

TEST(GraphExecution, EveryEngineAndKnobAgreesWithNaiveLoops) {
  std::mt19937 random(41);
  int ran = 0, with_workspace = 0;
  for (const Operation operation : kOperations)
    for (const DataType type :
         {DataType::kFloat, DataType::kHalf, DataType::kBfloat16, DataType::kDouble})
      for (const Layout layout : {Layout::kNchw, Layout::kNhwc})
        for (const int spatial : {2, 3})
          for (int64_t index = 0; index < 4; ++index)
            for (int64_t knob = 0; knob < 3; ++knob) {
              ConvolutionCase c{.operation = operation,
                                .type = type,
                                .spatial = spatial,
                                .layout = layout,
                                .alpha = 2,
                                .beta = -1};
              c.x[0] = 5;  // a batch that 2 or 4 parts cannot divide equally
              Convolution convolution(c);
              convolution.FillAll(random);
              const ConvolutionGraph graph(convolution);
              Plan plan;
              if (!plan.Build(graph.graph, index, knob)) continue;
              ++ran;
              const int64_t bytes = plan.Workspace();
              with_workspace += bytes > 0;
              const bool implicit_gemm =
                  index == 0 || (index == 3 && operation != Operation::kForward);
              EXPECT_TRUE(!implicit_gemm || bytes == 0);
              DeviceMemory workspace(static_cast<size_t>(bytes));
              EXPECT_OK(Execute(plan, convolution, workspace.data));
              convolution.ComputeExpected();
              ASSERT_TRUE(convolution.Result().Matches())
                  << "operation " << static_cast<int>(operation) << " type "
                  << static_cast<int>(type) << " engine " << index << " knob " << knob;
            }
  EXPECT_GT(ran, 48);
  EXPECT_GT(with_workspace, 24);
}

TEST(GraphExecution, PaddingOfOneSideAgreesWithNaiveLoops) {
  std::mt19937 random(43);
  int ran = 0;
  for (const Operation operation : kOperations)
    for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kDouble})
      for (const int before : {0, 1})
        for (int64_t index = 0; index < 4; ++index) {
          ConvolutionCase c{.operation = operation,
                            .type = type,
                            .more_pad = {0, 1 - 2 * before, 2 - 3 * before},
                            .pad = {0, before, before},
                            .stride = {1, 1, 2}};
          Convolution convolution(c);
          convolution.FillAll(random);
          const ConvolutionGraph graph(convolution);
          Plan plan;
          if (!plan.Build(graph.graph, index, 0)) continue;
          ++ran;
          DeviceMemory workspace(static_cast<size_t>(plan.Workspace()));
          EXPECT_OK(Execute(plan, convolution, workspace.data));
          convolution.ComputeExpected();
          ASSERT_TRUE(convolution.Result().Matches())
              << "operation " << static_cast<int>(operation) << " type " << static_cast<int>(type)
              << " engine " << index << ", " << before << " before";
        }
  EXPECT_GE(ran, 30);
}

TEST(GraphExecution, WorkspaceGrowsWithTheBatchAndShrinksWithTheKnob) {
  const auto bytes = [](int batch, int64_t knob) {
    ConvolutionCase c;
    c.x[0] = batch;
    const Convolution convolution(c);
    const ConvolutionGraph graph(convolution);
    Plan plan;
    EXPECT_TRUE(plan.Build(graph.graph, 1, knob));
    return plan.Workspace();
  };
  EXPECT_GT(bytes(64, 0), bytes(32, 0));
  EXPECT_GT(bytes(64, 0), bytes(64, 1));
  EXPECT_GT(bytes(64, 1), bytes(64, 2));
}

TEST(GraphExecution, EveryOperationHasADeterministicEngineWithoutWorkspace) {
  for (const Operation operation : kOperations)
    for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBfloat16}) {
      ConvolutionCase c{.operation = operation, .type = type};
      const Convolution convolution(c);
      const ConvolutionGraph graph(convolution);
      bool found = false;
      for (int64_t index = 0; index < 4 && !found; ++index) {
        Plan plan;
        if (!plan.Build(graph.graph, index, 0) || plan.Workspace() > 0) continue;
        const auto notes = plan.NumericalNotes();
        found = std::count(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == 0;
      }
      EXPECT_TRUE(found) << "operation " << static_cast<int>(operation) << " type "
                         << static_cast<int>(type);
    }
}

TEST(GraphExecution, WithoutWorkspaceNothingRuns) {
  Convolution convolution(ConvolutionCase{}, 3);
  Plan plan;
  ASSERT_TRUE(plan.Build(ConvolutionGraph(convolution).graph, 1, 0));
  ASSERT_GT(plan.Workspace(), 0);
  EXPECT_EQ(Execute(plan, convolution, nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  cudaDeviceSynchronize();
  EXPECT_TRUE(convolution.Result().Matches());
}

TEST(GraphExecution, RunsInStreamOrderAndIsRecordedInACapture) {
  std::mt19937 random(7);
  ConvolutionCase c{.alpha = 2};
  Convolution convolution(c);
  convolution.FillAll(random);
  Plan plan;
  ASSERT_TRUE(plan.Build(ConvolutionGraph(convolution).graph, 1, 1));
  DeviceMemory workspace(static_cast<size_t>(plan.Workspace()));
  const Stream stream;
  ASSERT_OK(cudnnSetStream(convolution.handle, stream));
  const Executable exec =
      Captured(stream, [&] { EXPECT_OK(Execute(plan, convolution, workspace.data)); });
  cudaDeviceSynchronize();
  EXPECT_TRUE(convolution.Result().Matches()) << "a captured plan has not run";
  convolution.x.Fill(random);  // the replay must read the new x
  cudaDeviceSynchronize();
  exec.Run(stream);
  convolution.ComputeExpected();
  EXPECT_TRUE(convolution.Result().Matches());

  Gate gate;
  gate.Launch(stream);
  EXPECT_OK(Execute(plan, convolution, workspace.data));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  gate.Open();
  EXPECT_OK(cudaStreamSynchronize(stream));
  EXPECT_TRUE(convolution.Result().Matches());
}

// cudnn-frontend's samples of dynamic shapes share a kernel cache like this.
TEST(GraphExecution, GraphsOfDynamicShapesShareAKernelCache) {
  std::mt19937 random(13);
  Descriptor cache(CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR);
  for (const int batch : {5, 8}) {
    ConvolutionCase c;
    c.x[0] = batch;
    Convolution convolution(c);
    convolution.FillAll(random);
    GraphBuilder builder;
    builder.AllowDynamicShapes();
    const Descriptor& graph = ConvolutionGraph::Describe(builder, convolution);
    Plan plan;
    if (batch == 5) {
      EXPECT_EQ(
          cudnnBackendSetAttribute(plan.descriptor.handle, CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &cache.handle),
          CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
      cache.SetChild(CUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH, graph);
      EXPECT_OK(cache.Finalize());
    }
    plan.descriptor.SetChild(CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE, cache);
    ASSERT_TRUE(plan.Build(graph, 1, 0));
    const DeviceMemory workspace(static_cast<size_t>(plan.Workspace()));
    EXPECT_OK(Execute(plan, convolution, workspace.data));
    ASSERT_OK(cudaDeviceSynchronize());
    convolution.ComputeExpected();
    EXPECT_TRUE(convolution.Result().Matches()) << batch << " images";
  }
}

// cudnn-frontend's Graph::deserialize warms up a plan like this: in a capture that it discards,
// with one small buffer as the memory of every tensor.
TEST(GraphExecution, WrongMemoryInACaptureIsAnErrorOfThatCallAlone) {
  Convolution convolution(ConvolutionCase{}, 11);
  Plan plan;
  ASSERT_TRUE(plan.Build(ConvolutionGraph(convolution).graph, 1, 0));
  const auto needed = static_cast<size_t>(plan.Workspace());
  ASSERT_GT(needed, 512u);
  const DeviceMemory small(needed - 512), workspace(needed + 64);
  const Stream stream;
  ASSERT_OK(cudnnSetStream(convolution.handle, stream));
  testing::internal::CaptureStderr();
  const auto misuse = [&] {
    EXPECT_EQ(Execute(plan, convolution, small.data), CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    EXPECT_EQ(Execute(plan, convolution, workspace.As<char>() + 4),
              CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    EXPECT_EQ(plan.Run(convolution.handle, ConvolutionGraph::Ids(),
                       {small.data, small.data, small.data}, small.data),
              CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    char why[200] = "";
    cudnnGetLastErrorString(why, sizeof why);
    EXPECT_NE(std::string(why).find("bytes, "), std::string::npos) << why;
  };
  const Graph graph(stream, misuse, cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(graph.Nodes(), 0u) << "what was refused is not recorded";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_OK(Execute(plan, convolution, workspace.data));
  ASSERT_OK(cudaStreamSynchronize(stream));
  convolution.ComputeExpected();
  EXPECT_TRUE(convolution.Result().Matches());
}

void ReplaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

TEST(GraphExecution, APlanRebatchedThroughItsJsonIsTheOneBuiltForThatBatch) {
  for (const Operation operation : kOperations) {
    for (int64_t index = 0; index < 2; ++index) {
      ConvolutionCase c{.operation = operation};
      c.x[0] = 9;
      const Convolution whole(c);
      Plan plan;
      ASSERT_TRUE(plan.Build(ConvolutionGraph(whole).graph, index, 0));
      std::string json = plan.Json();
      ReplaceAll(json, "\"dim\":[9,", "\"dim\":[4,");
      Plan smaller;
      smaller.descriptor.Set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                             std::vector<char>(json.begin(), json.end()));
      ASSERT_OK(smaller.descriptor.Finalize());
      c.x[0] = 4;
      Convolution part(c, 5);
      Plan native;
      ASSERT_TRUE(native.Build(ConvolutionGraph(part).graph, index, 0));
      EXPECT_EQ(smaller.Workspace(), native.Workspace());
      DeviceMemory workspace(static_cast<size_t>(smaller.Workspace()));
      EXPECT_OK(Execute(smaller, part, workspace.data));
      part.ComputeExpected();
      EXPECT_TRUE(part.Result().Matches());
    }
  }
}

}  // namespace
}  // namespace hostgpu::test
