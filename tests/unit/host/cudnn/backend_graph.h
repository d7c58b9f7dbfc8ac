// Builds and runs operation graphs and execution plans of the graph API.
#pragma once

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/host/cudnn/convolution_case.h"

namespace hostgpu::test {

// Owns a descriptor of the graph API.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t kind) {
    EXPECT_OK(cudnnBackendCreateDescriptor(kind, &handle));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { cudnnBackendDestroyDescriptor(handle); }

  template <class T>
  void Set(int name, cudnnBackendAttributeType_t type, const std::vector<T>& values) {
    EXPECT_OK(cudnnBackendSetAttribute(handle, static_cast<cudnnBackendAttributeName_t>(name), type,
                                       static_cast<int64_t>(values.size()), values.data()))
        << name;
  }
  void SetChild(int name, const Descriptor& child) {
    Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<void*>{child.handle});
  }
  void SetFlag(int name) { Set(name, CUDNN_TYPE_BOOLEAN, std::vector<char>{1}); }
  cudnnStatus_t Finalize() { return cudnnBackendFinalize(handle); }

  cudnnBackendDescriptor_t handle = nullptr;
};

struct TensorOptions {
  int64_t alignment = 16;
  bool is_virtual = false, by_value = false;
};

// Builds a graph. All descriptors of the graph live as long as the builder.
class GraphBuilder {
 public:
  Descriptor& Tensor(int64_t id, DataType type, const std::vector<int>& dims,
                     const std::vector<int>& strides, const TensorOptions& options = {}) {
    Descriptor& tensor = parts_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int data_type = CudnnType(type);
    tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{data_type});
    tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
               std::vector<int64_t>(dims.begin(), dims.end()));
    tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
               std::vector<int64_t>(strides.begin(), strides.end()));
    tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::vector{id});
    tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::vector{options.alignment});
    if (options.is_virtual) tensor.SetFlag(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    if (options.by_value) tensor.SetFlag(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    EXPECT_OK(tensor.Finalize());
    return tensor;
  }

  // Adds the case's convolution of the tensors x, w and y, one of which is the result.
  void Convolve(const ConvolutionCase& c, const Descriptor& x, const Descriptor& w,
                const Descriptor& y) {
    Descriptor& convolution = parts_.emplace_back(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const auto axes = [&](const std::array<int, 3>& values) {
      return std::vector<int64_t>(values.begin() + 3 - c.spatial, values.end());
    };
    const int compute = ComputeType(c.type);
    const int mode = c.flip ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION;
    convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{compute});
    convolution.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                    std::vector{mode});
    convolution.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64,
                    std::vector<int64_t>{c.spatial});
    std::array<int, 3> upper_pad = c.pad;
    for (int i = 0; i < 3; ++i) upper_pad[i] += c.more_pad[i];
    convolution.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, axes(c.pad));
    convolution.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, axes(upper_pad));
    convolution.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, axes(c.stride));
    convolution.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, axes(c.dilation));
    EXPECT_OK(convolution.Finalize());
    // In every operation the attributes from `first` on are ALPHA, BETA, CONV_DESC, W, X and Y, in
    // this order.
    constexpr std::pair<cudnnBackendDescriptorType_t, int> kInOrder[] = {
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA}};
    const auto [kind, first] = kInOrder[static_cast<int>(c.operation)];
    Descriptor& operation = AddOperation(kind);
    operation.Set(first, CUDNN_TYPE_DOUBLE, std::vector{c.alpha});
    operation.Set(first + 1, CUDNN_TYPE_DOUBLE, std::vector{c.beta});
    operation.SetChild(first + 2, convolution);
    operation.SetChild(first + 3, w);
    operation.SetChild(first + 4, x);
    operation.SetChild(first + 5, y);
    EXPECT_OK(operation.Finalize());
  }

  // Lists attributes of a pointwise descriptor, other than its mode, with their values.
  using Parameters = std::vector<std::pair<int, double>>;
  // Lists tensors of the operation, with the attributes that they belong to.
  using Operands = std::vector<std::pair<int, const Descriptor*>>;
  void Apply(int mode, const Parameters& parameters, const Operands& operands, double alpha2 = 1) {
    Descriptor& pointwise = parts_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    pointwise.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode});
    const int precision = CUDNN_DATA_FLOAT;
    pointwise.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, std::vector{precision});
    for (const auto& [name, value] : parameters) {
      pointwise.Set(name, CUDNN_TYPE_DOUBLE, std::vector{value});
    }
    EXPECT_OK(pointwise.Finalize());
    Descriptor& operation = AddOperation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.SetChild(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
    for (const auto& [name, tensor] : operands) operation.SetChild(name, *tensor);
    operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_DOUBLE, std::vector{alpha2});
    EXPECT_OK(operation.Finalize());
  }

  // Adds an operation whose attributes are numbers and tensors.
  Descriptor& Operate(cudnnBackendDescriptorType_t kind,
                      const std::vector<std::pair<int, int64_t>>& numbers,
                      const std::vector<std::pair<int, std::vector<const Descriptor*>>>& tensors) {
    Descriptor& operation = AddOperation(kind);
    for (const auto& [name, value] : numbers) {
      operation.Set(name, CUDNN_TYPE_INT64, std::vector{value});
    }
    for (const auto& [name, list] : tensors) {
      std::vector<void*> handles;
      for (const Descriptor* tensor : list) handles.push_back(tensor->handle);
      operation.Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, handles);
    }
    return operation;
  }

  // REQUIRES: Finish() was not called yet.
  void AllowDynamicShapes() { graph_.SetFlag(CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED); }

  const Descriptor& Finish() {
    graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_);
    EXPECT_OK(graph_.Finalize());
    return graph_;
  }
  const Descriptor& graph() const { return graph_; }

 private:
  Descriptor& AddOperation(cudnnBackendDescriptorType_t kind) {
    Descriptor& operation = parts_.emplace_back(kind);
    operations_.push_back(operation.handle);
    return operation;
  }

  std::list<Descriptor> parts_;
  std::vector<void*> operations_;
  Descriptor graph_{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
};

// Builds a graph of one convolution, whose x, w and y have the ids 1, 2 and 3.
struct ConvolutionGraph {
  explicit ConvolutionGraph(const Convolution& c) : graph(Describe(builder, c)) {}

  static std::vector<int64_t> Ids() { return {1, 2, 3}; }
  static const Descriptor& Describe(GraphBuilder& builder, const Convolution& c) {
    const auto tensor = [&](const DeviceTensor& of, int64_t id) -> Descriptor& {
      return builder.Tensor(id, of.type, c.Pick(of.dims), c.Pick(of.strides));
    };
    builder.Convolve(c.problem, tensor(c.x, 1), tensor(c.w, 2), tensor(c.y, 3));
    return builder.Finish();
  }

  GraphBuilder builder;
  const Descriptor& graph;
};

// Builds an execution plan of one engine, with a workspace knob if the knob's value is above 0.
struct Plan {
  Plan() : descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {}

  // Returns false if the engine does not support the graph.
  bool Build(const Descriptor& graph, int64_t index, int64_t knob) {
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR), config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    engine.SetChild(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    engine.Set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, std::vector{index});
    if (engine.Finalize() != CUDNN_STATUS_SUCCESS) return false;
    config.SetChild(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    Descriptor choice(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    const int type = CUDNN_KNOB_TYPE_WORKSPACE;
    choice.Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, std::vector{type});
    choice.Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, std::vector{knob});
    EXPECT_OK(choice.Finalize());
    if (knob > 0) config.SetChild(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choice);
    if (config.Finalize() != CUDNN_STATUS_SUCCESS) return false;
    descriptor.SetChild(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    return descriptor.Finalize() == CUDNN_STATUS_SUCCESS;
  }
  int64_t Workspace() const {
    int64_t bytes = -1;
    EXPECT_OK(cudnnBackendGetAttribute(descriptor.handle, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, nullptr, &bytes));
    return bytes;
  }
  std::string Json() const {
    int64_t length = 0;
    cudnnBackendGetAttribute(descriptor.handle, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                             CUDNN_TYPE_CHAR, 0, &length, nullptr);
    std::string text(static_cast<size_t>(length), ' ');
    EXPECT_OK(cudnnBackendGetAttribute(descriptor.handle,
                                       CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                       CUDNN_TYPE_CHAR, length, &length, text.data()));
    return text;
  }
  // Executes the plan. `pointers[i]` is the tensor with the unique id `ids[i]`.
  cudnnStatus_t Run(cudnnHandle_t handle, const std::vector<int64_t>& ids,
                    const std::vector<void*>& pointers, void* workspace) const {
    return With(ids, pointers, workspace, [&](cudnnBackendDescriptor_t pack) {
      return cudnnBackendExecute(handle, descriptor.handle, pack);
    });
  }
  // Returns what `use` returns for a variant pack of these pointers.
  template <class Use>
  cudnnStatus_t With(const std::vector<int64_t>& ids, const std::vector<void*>& pointers,
                     void* workspace, const Use& use) const {
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids);
    pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers);
    pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector{workspace});
    EXPECT_OK(pack.Finalize());
    return use(pack.handle);
  }
  // These return the notes of the plan's engine about its behaviour and about its arithmetic.
  std::vector<cudnnBackendBehaviorNote_t> BehaviorNotes() const {
    return Notes<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                             CUDNN_TYPE_BEHAVIOR_NOTE);
  }
  std::vector<cudnnBackendNumericalNote_t> NumericalNotes() const {
    return Notes<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                              CUDNN_TYPE_NUMERICAL_NOTE);
  }

  Descriptor descriptor;

 private:
  template <class Note>
  std::vector<Note> Notes(cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type) const {
    const Descriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
        engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    const auto fill = [](const Descriptor& from, cudnnBackendAttributeName_t part_name,
                         const Descriptor& part) {
      cudnnBackendDescriptor_t filled = part.handle;
      EXPECT_OK(cudnnBackendGetAttribute(from.handle, part_name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                         nullptr, &filled));
    };
    fill(descriptor, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    fill(config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    constexpr int64_t kMost = 32;
    int64_t count = 0;
    std::vector<Note> notes(kMost);
    EXPECT_OK(cudnnBackendGetAttribute(engine.handle, name, type, kMost, &count, notes.data()));
    notes.resize(static_cast<size_t>(count));
    return notes;
  }
};

// Executes the plan of a ConvolutionGraph.
inline cudnnStatus_t Execute(const Plan& plan, const Convolution& c, void* workspace) {
  return plan.Run(c.handle, ConvolutionGraph::Ids(), {c.x.data, c.w.data, c.y.data}, workspace);
}

}  // namespace hostgpu::test
