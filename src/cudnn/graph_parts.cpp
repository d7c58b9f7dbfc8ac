#include "cudnn/graph_parts.h"

#include <algorithm>
#include <utility>

#include "cudnn/descriptors.h"

namespace ucudnn::cudnn {
namespace {

struct OperationAttributes {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};

// Indexed by the value of Operation.
constexpr OperationAttributes kOperations[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

Result<BackendDescriptor> ConvolutionDescriptor(const Functions& functions,
                                                const ConvolutionProblem& problem) {
  UCUDNN_ASSIGN_OR_RETURN(
      BackendDescriptor convolution,
      BackendDescriptor::Create(functions, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  const cudnnDataType_t compute = CudnnType(problem.compute);
  const cudnnConvolutionMode_t mode =
      problem.mode == ConvolutionMode::kConvolution ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION;
  UCUDNN_RETURN_IF_ERROR(
      SetIntegers(convolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {problem.spatial_rank}));
  UCUDNN_RETURN_IF_ERROR(
      convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute));
  UCUDNN_RETURN_IF_ERROR(
      convolution.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
  Spatial behind = problem.pad;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) behind[axis] += problem.extra_pad[axis];
  for (const auto& [name, values] :
       {std::pair{CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, problem.pad},
        std::pair{CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, behind},
        std::pair{CUDNN_ATTR_CONVOLUTION_DILATIONS, problem.dilation},
        std::pair{CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, problem.stride}}) {
    UCUDNN_RETURN_IF_ERROR(SetIntegers(convolution, name, Axes(problem, values)));
  }
  UCUDNN_RETURN_IF_ERROR(convolution.Finalize());
  return convolution;
}

Result<BackendDescriptor> KnobChoice(const Functions& functions, int number, int64_t value) {
  UCUDNN_ASSIGN_OR_RETURN(
      BackendDescriptor choice,
      BackendDescriptor::Create(functions, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
  const auto type = static_cast<cudnnBackendKnobType_t>(number);
  UCUDNN_RETURN_IF_ERROR(
      choice.Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type));
  UCUDNN_RETURN_IF_ERROR(SetIntegers(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, {value}));
  UCUDNN_RETURN_IF_ERROR(choice.Finalize());
  return choice;
}

}  // namespace

Status SetIntegers(BackendDescriptor& to, cudnnBackendAttributeName_t name,
                   const std::vector<int64_t>& values) {
  return to.Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

Status SetPart(BackendDescriptor& to, cudnnBackendAttributeName_t name,
               cudnnBackendDescriptor_t part) {
  return to.Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

std::vector<int64_t> Axes(const ConvolutionProblem& problem, const Spatial& values) {
  return {values.end() - problem.spatial_rank, values.end()};
}

Result<BackendDescriptor> MakeTensor(const Functions& functions, const TensorParts& parts) {
  UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor tensor,
                          BackendDescriptor::Create(functions, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  const cudnnDataType_t type = CudnnType(parts.type);
  UCUDNN_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
  UCUDNN_RETURN_IF_ERROR(SetIntegers(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, parts.dims));
  UCUDNN_RETURN_IF_ERROR(SetIntegers(tensor, CUDNN_ATTR_TENSOR_STRIDES, parts.strides));
  UCUDNN_RETURN_IF_ERROR(SetIntegers(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, {parts.uid}));
  UCUDNN_RETURN_IF_ERROR(SetIntegers(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {parts.alignment}));
  if (parts.is_virtual) {
    UCUDNN_RETURN_IF_ERROR(
        tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &parts.is_virtual));
  }
  UCUDNN_RETURN_IF_ERROR(tensor.Finalize());
  return tensor;
}

Result<BackendDescriptor> MakeConvolution(const Functions& functions,
                                          const ConvolutionProblem& problem,
                                          cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                                          cudnnBackendDescriptor_t y, const Scales& scales) {
  UCUDNN_ASSIGN_OR_RETURN(const BackendDescriptor convolution,
                          ConvolutionDescriptor(functions, problem));
  const OperationAttributes& names = kOperations[static_cast<int>(problem.operation)];
  UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor operation,
                          BackendDescriptor::Create(functions, names.type));
  UCUDNN_RETURN_IF_ERROR(SetPart(operation, names.x, x));
  UCUDNN_RETURN_IF_ERROR(SetPart(operation, names.w, w));
  UCUDNN_RETURN_IF_ERROR(SetPart(operation, names.y, y));
  UCUDNN_RETURN_IF_ERROR(SetPart(operation, names.convolution, convolution.get()));
  const bool wide = problem.compute == DataType::kDouble;
  const auto type = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  const auto set = [&](cudnnBackendAttributeName_t name, double value) {
    const auto narrow = static_cast<float>(value);
    return operation.Set(name, type, 1, wide ? static_cast<const void*>(&value) : &narrow);
  };
  UCUDNN_RETURN_IF_ERROR(set(names.alpha, scales.alpha));
  UCUDNN_RETURN_IF_ERROR(set(names.beta, scales.beta));
  UCUDNN_RETURN_IF_ERROR(operation.Finalize());
  return operation;
}

Result<BackendDescriptor> MakeGraph(const Functions& functions, const PlanDevice& device,
                                    std::span<const cudnnBackendDescriptor_t> operations) {
  UCUDNN_ASSIGN_OR_RETURN(
      BackendDescriptor graph,
      BackendDescriptor::Create(functions, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  UCUDNN_RETURN_IF_ERROR(graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                   static_cast<int64_t>(operations.size()), operations.data()));
  if (device.handle != nullptr) {
    UCUDNN_RETURN_IF_ERROR(
        graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &device.handle));
  }
  UCUDNN_RETURN_IF_ERROR(graph.Finalize());
  return graph;
}

Result<BackendDescriptor> MakeConfiguration(const Functions& functions, const PlanDevice& device,
                                            cudnnBackendDescriptor_t graph,
                                            const EngineId::Graph& named) {
  UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor engine,
                          BackendDescriptor::Create(functions, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  UCUDNN_RETURN_IF_ERROR(SetPart(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph));
  UCUDNN_RETURN_IF_ERROR(SetIntegers(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, {named.index}));
  if (device.properties != nullptr) {
    UCUDNN_RETURN_IF_ERROR(SetPart(engine, CUDNN_ATTR_ENGINE_DEVICEPROP, device.properties));
  }
  UCUDNN_RETURN_IF_ERROR(engine.Finalize());
  UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor configuration,
                          BackendDescriptor::Create(functions, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  UCUDNN_RETURN_IF_ERROR(SetPart(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, engine.get()));
  std::vector<BackendDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> chosen;
  for (const auto& [type, value] : named.knobs) {
    UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor choice, KnobChoice(functions, type, value));
    chosen.push_back(choice.get());
    choices.push_back(std::move(choice));
  }
  if (!chosen.empty()) {
    UCUDNN_RETURN_IF_ERROR(configuration.Set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                             static_cast<int64_t>(chosen.size()), chosen.data()));
  }
  UCUDNN_RETURN_IF_ERROR(configuration.Finalize());
  return configuration;
}

std::vector<BackendDescriptor> ChosenConfigurations(const Functions& functions,
                                                    const PlanDevice& device,
                                                    cudnnBackendDescriptor_t graph, int64_t most) {
  auto heuristics = BackendDescriptor::Create(functions, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  if (!heuristics.ok()) return {};
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_B;
  Status status = SetPart(*heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  if (status.ok()) {
    status = heuristics->Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  }
  if (status.ok() && device.properties != nullptr) {
    status = SetPart(*heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device.properties);
  }
  if (status.ok()) status = heuristics->Finalize();
  if (!status.ok()) return {};
  std::vector<BackendDescriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> filled;
  for (int64_t i = 0; i < most; ++i) {
    auto configuration = BackendDescriptor::Create(functions, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!configuration.ok()) return {};
    filled.push_back(configuration->get());
    configurations.push_back(std::move(*configuration));
  }
  int64_t count = 0;
  if (functions.cudnnBackendGetAttribute(heuristics->get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count,
                                         filled.data()) != CUDNN_STATUS_SUCCESS) {
    return {};
  }
  configurations.resize(static_cast<size_t>(std::clamp<int64_t>(count, 0, most)));
  return configurations;
}

Result<BackendDescriptor> MakePlan(const Functions& functions, const PlanDevice& device,
                                   cudnnBackendDescriptor_t configuration) {
  UCUDNN_ASSIGN_OR_RETURN(
      BackendDescriptor plan,
      BackendDescriptor::Create(functions, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  UCUDNN_RETURN_IF_ERROR(SetPart(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration));
  if (device.handle != nullptr) {
    UCUDNN_RETURN_IF_ERROR(
        plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &device.handle));
  } else {
    UCUDNN_RETURN_IF_ERROR(SetPart(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device.properties));
  }
  UCUDNN_RETURN_IF_ERROR(plan.Finalize());
  return plan;
}

}  // namespace ucudnn::cudnn
