// Plans of the graph API on the stand-in against naive loops: every engine and knob setting, its
// workspace, and plans re-batched through their JSON.
#include <gtest/gtest.h>

#include <future>

#include "tests/unit/host/cudnn/convolution_case.h"

namespace hostgpu::test {
namespace {

constexpr int64_t kIds[] = {1, 2, 3};

// A descriptor that destroys itself.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t kind) {
    EXPECT_EQ(cudnnBackendCreateDescriptor(kind, &handle), CUDNN_STATUS_SUCCESS);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { cudnnBackendDestroyDescriptor(handle); }

  template <class T>
  void Set(int name, cudnnBackendAttributeType_t type, const std::vector<T>& values) {
    EXPECT_EQ(cudnnBackendSetAttribute(handle, static_cast<cudnnBackendAttributeName_t>(name), type,
                                       static_cast<int64_t>(values.size()), values.data()),
              CUDNN_STATUS_SUCCESS)
        << name;
  }
  void SetChild(int name, const Descriptor& child) {
    Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<void*>{child.handle});
  }
  cudnnStatus_t Finalize() { return cudnnBackendFinalize(handle); }

  cudnnBackendDescriptor_t handle = nullptr;
};

class Graph {
 public:
  explicit Graph(const Convolution& c)
      : x_(CUDNN_BACKEND_TENSOR_DESCRIPTOR),
        w_(CUDNN_BACKEND_TENSOR_DESCRIPTOR),
        y_(CUDNN_BACKEND_TENSOR_DESCRIPTOR),
        convolution_(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR),
        operation_(KindOf(c.problem.operation)),
        graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    Describe(x_, c, c.x, kIds[0]);
    Describe(w_, c, c.w, kIds[1]);
    Describe(y_, c, c.y, kIds[2]);
    const int spatial = c.problem.spatial;
    const auto axes = [&](const std::array<int, 3>& values) {
      return std::vector<int64_t>(values.begin() + 3 - spatial, values.end());
    };
    const int compute = c.problem.type == DataType::kDouble ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    const int mode = c.problem.flip ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION;
    convolution_.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{compute});
    convolution_.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                     std::vector{mode});
    convolution_.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64,
                     std::vector<int64_t>{spatial});
    for (int name : {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS}) {
      convolution_.Set(name, CUDNN_TYPE_INT64, axes(c.problem.pad));
    }
    convolution_.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64,
                     axes(c.problem.stride));
    convolution_.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, axes(c.problem.dilation));
    EXPECT_EQ(convolution_.Finalize(), CUDNN_STATUS_SUCCESS);
    // ALPHA, BETA, CONV_DESC, W, X, Y from here on, whichever operation it is.
    const int first = c.problem.operation == Operation::kForward
                          ? CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA
                      : c.problem.operation == Operation::kBackwardData
                          ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA
                          : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA;
    operation_.Set(first, CUDNN_TYPE_DOUBLE, std::vector{c.problem.alpha});
    operation_.Set(first + 1, CUDNN_TYPE_DOUBLE, std::vector{c.problem.beta});
    operation_.SetChild(first + 2, convolution_);
    operation_.SetChild(first + 3, w_);
    operation_.SetChild(first + 4, x_);
    operation_.SetChild(first + 5, y_);
    EXPECT_EQ(operation_.Finalize(), CUDNN_STATUS_SUCCESS);
    graph.SetChild(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation_);
    EXPECT_EQ(graph.Finalize(), CUDNN_STATUS_SUCCESS);
  }

 private:
  static cudnnBackendDescriptorType_t KindOf(Operation operation) {
    switch (operation) {
      case Operation::kForward:
        return CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
      case Operation::kBackwardData:
        return CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
      default:
        return CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
    }
  }
  static void Describe(Descriptor& descriptor, const Convolution& c, const DeviceTensor& tensor,
                       int64_t id) {
    const auto dims = c.Pick(tensor.dims), strides = c.Pick(tensor.strides);
    const int type = CudnnType(tensor.type);
    descriptor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{type});
    descriptor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
                   std::vector<int64_t>(dims.begin(), dims.end()));
    descriptor.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
                   std::vector<int64_t>(strides.begin(), strides.end()));
    descriptor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::vector{id});
    descriptor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::vector<int64_t>{16});
    EXPECT_EQ(descriptor.Finalize(), CUDNN_STATUS_SUCCESS);
  }

  Descriptor x_, w_, y_, convolution_, operation_;

 public:
  Descriptor graph;
};

struct Plan {
  Plan() : descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {}

  // False where the engine does not serve the graph.
  bool Build(const Graph& graph, int64_t index, int64_t knob) {
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR), config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    engine.SetChild(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.graph);
    engine.Set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, std::vector{index});
    if (engine.Finalize() != CUDNN_STATUS_SUCCESS) return false;
    config.SetChild(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    Descriptor choice(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    const int type = CUDNN_KNOB_TYPE_WORKSPACE;
    choice.Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, std::vector{type});
    choice.Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, std::vector{knob});
    EXPECT_EQ(choice.Finalize(), CUDNN_STATUS_SUCCESS);
    if (knob > 0) config.SetChild(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choice);
    if (config.Finalize() != CUDNN_STATUS_SUCCESS) return false;
    descriptor.SetChild(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    return descriptor.Finalize() == CUDNN_STATUS_SUCCESS;
  }
  int64_t Workspace() const {
    int64_t bytes = -1;
    EXPECT_EQ(cudnnBackendGetAttribute(descriptor.handle, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, nullptr, &bytes),
              CUDNN_STATUS_SUCCESS);
    return bytes;
  }
  std::string Json() const {
    int64_t length = 0;
    cudnnBackendGetAttribute(descriptor.handle, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                             CUDNN_TYPE_CHAR, 0, &length, nullptr);
    std::string text(static_cast<size_t>(length), ' ');
    EXPECT_EQ(
        cudnnBackendGetAttribute(descriptor.handle, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                 CUDNN_TYPE_CHAR, length, &length, text.data()),
        CUDNN_STATUS_SUCCESS);
    return text;
  }
  cudnnStatus_t Run(Convolution& c, void* workspace) {
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
             std::vector<int64_t>(kIds, kIds + 3));
    pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             std::vector<void*>{c.x.data, c.w.data, c.y.data});
    pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector{workspace});
    EXPECT_EQ(pack.Finalize(), CUDNN_STATUS_SUCCESS);
    return cudnnBackendExecute(c.handle, descriptor.handle, pack.handle);
  }

  Descriptor descriptor;
};

constexpr Operation kOperations[] = {Operation::kForward, Operation::kBackwardData,
                                     Operation::kBackwardFilter};

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
              ConvolutionCase c;
              c.operation = operation;
              c.type = type;
              c.layout = layout;
              c.spatial = spatial;
              c.x[0] = 5;  // no multiple of the parts
              c.alpha = 2;
              c.beta = -1;
              Convolution convolution(c);
              convolution.FillAll(random);
              const Graph graph(convolution);
              Plan plan;
              if (!plan.Build(graph, index, knob)) continue;
              ++ran;
              const int64_t bytes = plan.Workspace();
              with_workspace += bytes > 0;
              EXPECT_TRUE(index != 0 || bytes == 0);
              DeviceBytes workspace(static_cast<size_t>(bytes));
              EXPECT_EQ(plan.Run(convolution, workspace.data), CUDNN_STATUS_SUCCESS);
              convolution.ComputeExpected();
              ASSERT_TRUE(convolution.Result().Matches())
                  << "operation " << static_cast<int>(operation) << " type "
                  << static_cast<int>(type) << " engine " << index << " knob " << knob;
            }
  EXPECT_GT(ran, 48);
  EXPECT_GT(with_workspace, 24);
}

TEST(GraphExecution, WorkspaceGrowsWithTheBatchAndShrinksWithTheKnob) {
  const auto bytes = [](int batch, int64_t knob) {
    ConvolutionCase c;
    c.x[0] = batch;
    const Convolution convolution(c);
    const Graph graph(convolution);
    Plan plan;
    EXPECT_TRUE(plan.Build(graph, 1, knob));
    return plan.Workspace();
  };
  EXPECT_GT(bytes(64, 0), bytes(32, 0));
  EXPECT_GT(bytes(64, 0), bytes(64, 1));
  EXPECT_GT(bytes(64, 1), bytes(64, 2));
}

TEST(GraphExecution, WithoutWorkspaceNothingRuns) {
  Convolution convolution{ConvolutionCase{}};
  std::mt19937 random(3);
  convolution.FillAll(random);
  Plan plan;
  ASSERT_TRUE(plan.Build(Graph(convolution), 1, 0));
  ASSERT_GT(plan.Workspace(), 0);
  EXPECT_EQ(plan.Run(convolution, nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  cudaDeviceSynchronize();
  EXPECT_TRUE(convolution.Result().Matches());
}

TEST(GraphExecution, RunsInStreamOrderAndIsRecordedInACapture) {
  std::mt19937 random(7);
  ConvolutionCase c;
  c.alpha = 2;
  Convolution convolution(c);
  convolution.FillAll(random);
  Plan plan;
  ASSERT_TRUE(plan.Build(Graph(convolution), 1, 1));
  DeviceBytes workspace(static_cast<size_t>(plan.Workspace()));
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudnnSetStream(convolution.handle, stream), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(plan.Run(convolution, workspace.data), CUDNN_STATUS_SUCCESS);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  cudaDeviceSynchronize();
  EXPECT_TRUE(convolution.Result().Matches()) << "a captured plan has not run";
  convolution.x.Fill(random);  // the replay sees what the memory holds by then
  cudaDeviceSynchronize();
  ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  convolution.ComputeExpected();
  EXPECT_TRUE(convolution.Result().Matches());

  std::promise<void> gate;
  auto opened = gate.get_future();
  ASSERT_EQ(cudaLaunchHostFunc(
                stream, [](void* f) { static_cast<std::future<void>*>(f)->wait(); }, &opened),
            cudaSuccess);
  EXPECT_EQ(plan.Run(convolution, workspace.data), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  gate.set_value();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_TRUE(convolution.Result().Matches());
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

void ReplaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

TEST(GraphExecution, APlanRebatchedThroughItsJsonIsTheOneBuiltForThatBatch) {
  for (const Operation operation : kOperations) {
    for (int64_t index = 0; index < 2; ++index) {
      ConvolutionCase c;
      c.operation = operation;
      c.x[0] = 9;
      const Convolution whole(c);
      Plan plan;
      ASSERT_TRUE(plan.Build(Graph(whole), index, 0));
      std::string json = plan.Json();
      ReplaceAll(json, "\"dim\":[9,", "\"dim\":[4,");
      Plan smaller;
      smaller.descriptor.Set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                             std::vector<char>(json.begin(), json.end()));
      ASSERT_EQ(smaller.descriptor.Finalize(), CUDNN_STATUS_SUCCESS);
      c.x[0] = 4;
      Convolution part(c);
      std::mt19937 random(5);
      part.FillAll(random);
      Plan native;
      ASSERT_TRUE(native.Build(Graph(part), index, 0));
      EXPECT_EQ(smaller.Workspace(), native.Workspace());
      DeviceBytes workspace(static_cast<size_t>(smaller.Workspace()));
      EXPECT_EQ(smaller.Run(part, workspace.data), CUDNN_STATUS_SUCCESS);
      part.ComputeExpected();
      EXPECT_TRUE(part.Result().Matches());
    }
  }
}

}  // namespace
}  // namespace hostgpu::test
