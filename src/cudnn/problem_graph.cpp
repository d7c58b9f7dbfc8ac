#include "cudnn/problem_graph.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "cudnn/descriptors.h"

namespace ucudnn::cudnn {
namespace {

// So many entries of the heuristics' list are looked at, since many of its engines may not serve.
constexpr int64_t kLookedAt = 16;
constexpr int64_t kUidX = 1, kUidW = 2, kUidY = 3;

struct OperationAttributes {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};

// By operation.
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

Status SetIntegers(BackendDescriptor& to, cudnnBackendAttributeName_t name,
                   const std::vector<int64_t>& values) {
  return to.Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

Status SetPart(BackendDescriptor& to, cudnnBackendAttributeName_t name,
               cudnnBackendDescriptor_t part) {
  return to.Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

// The axes that the problem has.
std::vector<int64_t> Axes(const ConvolutionProblem& problem, const Spatial& values) {
  return {values.end() - problem.spatial_rank, values.end()};
}

struct TensorShape {
  int64_t images;  // of a filter: its output channels
  int64_t channels;
  Spatial extents;
  Strides strides;
};

Result<BackendDescriptor> Tensor(const Functions& functions, const ConvolutionProblem& problem,
                                 int64_t uid, const TensorShape& shape) {
  UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor tensor,
                          BackendDescriptor::Create(functions, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  const cudnnDataType_t type = CudnnType(problem.type);
  std::vector<int64_t> dims = Axes(problem, shape.extents);
  dims.insert(dims.begin(), {shape.images, shape.channels});
  std::vector<int64_t> steps(shape.strides.end() - problem.spatial_rank, shape.strides.end());
  steps.insert(steps.begin(), {shape.strides[0], shape.strides[1]});
  UCUDNN_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
  UCUDNN_RETURN_IF_ERROR(SetIntegers(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, dims));
  UCUDNN_RETURN_IF_ERROR(SetIntegers(tensor, CUDNN_ATTR_TENSOR_STRIDES, steps));
  UCUDNN_RETURN_IF_ERROR(SetIntegers(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, {uid}));
  UCUDNN_RETURN_IF_ERROR(
      SetIntegers(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {problem.alignment}));
  UCUDNN_RETURN_IF_ERROR(tensor.Finalize());
  return tensor;
}

Result<BackendDescriptor> Convolution(const Functions& functions,
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
  for (const auto& [name, values] :
       {std::pair{CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, problem.pad},
        std::pair{CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, problem.pad},
        std::pair{CUDNN_ATTR_CONVOLUTION_DILATIONS, problem.dilation},
        std::pair{CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, problem.stride}}) {
    UCUDNN_RETURN_IF_ERROR(SetIntegers(convolution, name, Axes(problem, values)));
  }
  UCUDNN_RETURN_IF_ERROR(convolution.Finalize());
  return convolution;
}

// Describes y = conv(x, w), or one of its gradients. cuDNN copies the descriptors that it is made
// from.
Result<BackendDescriptor> DescribeOperation(const Functions& functions,
                                            const ConvolutionProblem& problem) {
  const int64_t filter_channels = problem.c / problem.groups;
  UCUDNN_ASSIGN_OR_RETURN(
      const BackendDescriptor x,
      Tensor(functions, problem, kUidX, {problem.n, problem.c, problem.x, problem.x_strides}));
  UCUDNN_ASSIGN_OR_RETURN(const BackendDescriptor w,
                          Tensor(functions, problem, kUidW,
                                 {problem.k, filter_channels, problem.w,
                                  PackedStrides(problem.layout, filter_channels, problem.w)}));
  UCUDNN_ASSIGN_OR_RETURN(
      const BackendDescriptor y,
      Tensor(functions, problem, kUidY,
             {problem.n, problem.k, OutputExtents(problem), problem.y_strides}));
  UCUDNN_ASSIGN_OR_RETURN(const BackendDescriptor convolution, Convolution(functions, problem));
  const OperationAttributes& names = kOperations[static_cast<int>(problem.operation)];
  UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor operation,
                          BackendDescriptor::Create(functions, names.type));
  UCUDNN_RETURN_IF_ERROR(SetPart(operation, names.x, x.get()));
  UCUDNN_RETURN_IF_ERROR(SetPart(operation, names.w, w.get()));
  UCUDNN_RETURN_IF_ERROR(SetPart(operation, names.y, y.get()));
  UCUDNN_RETURN_IF_ERROR(SetPart(operation, names.convolution, convolution.get()));
  const bool wide = problem.compute == DataType::kDouble;
  const auto type = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  const double wide_alpha = 1, wide_beta = 0;
  const float alpha = 1, beta = 0;
  UCUDNN_RETURN_IF_ERROR(
      operation.Set(names.alpha, type, 1, wide ? static_cast<const void*>(&wide_alpha) : &alpha));
  UCUDNN_RETURN_IF_ERROR(
      operation.Set(names.beta, type, 1, wide ? static_cast<const void*>(&wide_beta) : &beta));
  UCUDNN_RETURN_IF_ERROR(operation.Finalize());
  return operation;
}

bool MayShow(int numerical_note, const ConvolutionProblem& problem) {
  switch (static_cast<cudnnBackendNumericalNote_t>(numerical_note)) {
    // These say the numeric class and determinism, which planning looks at.
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
      return true;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      return problem.type == DataType::kFloat
                 ? problem.math == MathType::kTensorOp ||
                       problem.math == MathType::kTensorOpAllowConversion
                 : problem.math != MathType::kFma;
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      return problem.math == MathType::kTensorOpAllowConversion;
    default:
      return false;
  }
}

bool MayBehave(int behavior_note) {
  return behavior_note == CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API ||
         behavior_note == CUDNN_BEHAVIOR_NOTE_CUBLASLT_DEPENDENCY;
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

bool MayServe(const EngineNotes& notes, const ConvolutionProblem& problem) {
  return std::all_of(notes.numerical.begin(), notes.numerical.end(),
                     [&](int note) { return MayShow(note, problem); }) &&
         std::all_of(notes.behavior.begin(), notes.behavior.end(), MayBehave);
}

Result<ProblemGraph> ProblemGraph::Create(const Functions& functions, const PlanDevice& device,
                                          const ConvolutionProblem& problem) {
  ProblemGraph created(functions, device, problem);
  UCUDNN_ASSIGN_OR_RETURN(const BackendDescriptor operation, DescribeOperation(functions, problem));
  UCUDNN_ASSIGN_OR_RETURN(created.graph_, BackendDescriptor::Create(
                                              functions, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  UCUDNN_RETURN_IF_ERROR(SetPart(created.graph_, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation.get()));
  if (device.handle != nullptr) {
    UCUDNN_RETURN_IF_ERROR(
        created.graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &device.handle));
  }
  UCUDNN_RETURN_IF_ERROR(created.graph_.Finalize());
  return created;
}

Result<GraphTemplate> ProblemGraph::TemplateOf(cudnnBackendDescriptor_t configuration) const {
  // Notes are read before the plan is built, which may take long.
  UCUDNN_ASSIGN_OR_RETURN(const EngineNotes notes, ConfigurationNotes(*functions_, configuration));
  if (!MayServe(notes, problem_))
    return Status::Error("an engine of other arithmetic or behaviour");
  UCUDNN_ASSIGN_OR_RETURN(
      BackendDescriptor plan,
      BackendDescriptor::Create(*functions_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  UCUDNN_RETURN_IF_ERROR(SetPart(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration));
  if (device_.handle != nullptr) {
    UCUDNN_RETURN_IF_ERROR(
        plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &device_.handle));
  } else {
    UCUDNN_RETURN_IF_ERROR(SetPart(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device_.properties));
  }
  UCUDNN_RETURN_IF_ERROR(plan.Finalize());
  UCUDNN_ASSIGN_OR_RETURN(GraphTemplate read, ReadTemplate(*functions_, plan.get()));
  // The graph API has no math type; MayServe has kept the caller's.
  read.convolution.problem.math = problem_.math;
  if (read.convolution.problem != problem_) {
    return Status::Error("the graph of " + Describe(problem_) + " reads back as " +
                         Describe(read.convolution.problem));
  }
  read.callers_beta = true;
  return read;
}

std::vector<GraphTemplate> ProblemGraph::Heuristics(size_t most,
                                                    const std::function<bool()>& in_time) const {
  std::vector<GraphTemplate> best;
  auto heuristics = BackendDescriptor::Create(*functions_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  if (!heuristics.ok()) return best;
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_B;
  Status status = SetPart(*heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_.get());
  if (status.ok()) {
    status = heuristics->Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  }
  if (status.ok() && device_.properties != nullptr) {
    status = SetPart(*heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device_.properties);
  }
  if (status.ok()) status = heuristics->Finalize();
  if (!status.ok()) return best;
  std::vector<BackendDescriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> filled;
  for (int i = 0; i < kLookedAt; ++i) {
    auto configuration = BackendDescriptor::Create(*functions_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!configuration.ok()) return best;
    filled.push_back(configuration->get());
    configurations.push_back(std::move(*configuration));
  }
  int64_t count = 0;
  if (functions_->cudnnBackendGetAttribute(heuristics->get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, kLookedAt, &count,
                                           filled.data()) != CUDNN_STATUS_SUCCESS) {
    return best;
  }
  for (int64_t i = 0; i < std::min<int64_t>(count, kLookedAt); ++i) {
    if (best.size() == most || (!best.empty() && !in_time())) break;
    auto read = TemplateOf(filled[static_cast<size_t>(i)]);
    if (read.ok()) best.push_back(std::move(*read));
  }
  return best;
}

Result<GraphTemplate> ProblemGraph::Named(const EngineId& engine) const {
  const EngineId::Graph* const named = engine.graph();
  if (named == nullptr || !named->fusion.empty()) {
    return Status::Error("'" + engine.Text() + "' is no engine of an unfused graph");
  }
  UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor descriptor,
                          BackendDescriptor::Create(*functions_, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  UCUDNN_RETURN_IF_ERROR(SetPart(descriptor, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_.get()));
  UCUDNN_RETURN_IF_ERROR(SetIntegers(descriptor, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, {named->index}));
  if (device_.properties != nullptr) {
    UCUDNN_RETURN_IF_ERROR(SetPart(descriptor, CUDNN_ATTR_ENGINE_DEVICEPROP, device_.properties));
  }
  UCUDNN_RETURN_IF_ERROR(descriptor.Finalize());
  UCUDNN_ASSIGN_OR_RETURN(
      BackendDescriptor configuration,
      BackendDescriptor::Create(*functions_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  UCUDNN_RETURN_IF_ERROR(SetPart(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, descriptor.get()));
  std::vector<BackendDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> chosen;
  for (const auto& [type, value] : named->knobs) {
    UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor choice, KnobChoice(*functions_, type, value));
    chosen.push_back(choice.get());
    choices.push_back(std::move(choice));
  }
  if (!chosen.empty()) {
    UCUDNN_RETURN_IF_ERROR(configuration.Set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                             static_cast<int64_t>(chosen.size()), chosen.data()));
  }
  UCUDNN_RETURN_IF_ERROR(configuration.Finalize());
  UCUDNN_ASSIGN_OR_RETURN(GraphTemplate read, TemplateOf(configuration.get()));
  if (read.convolution.engine != engine) {
    return Status::Error("'" + engine.Text() + "' reads back as " + read.convolution.engine.Text());
  }
  return read;
}

}  // namespace ucudnn::cudnn
