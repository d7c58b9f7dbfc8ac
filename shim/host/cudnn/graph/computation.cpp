#include "shim/host/cudnn/graph/computation.h"

#include <map>

#include "shim/host/cudnn/refusal.h"

namespace hostgpu {
namespace {

// Returns true if fp32, in which steps are usually computed, cannot represent every value of the
// type.
bool IsWide(DataType type) { return type == DataType::kDouble || type == DataType::kInt32; }

class Lowering {
 public:
  explicit Lowering(Computation* computation) : computation_(*computation) {}

  cudnnStatus_t Add(const ConvolutionOperation& operation, bool is_last) {
    HOSTGPU_REFUSE_IF(computation_.convolution.has_value() || program().dim_count != 0,
                      CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    ConvolutionOperation dense = operation;
    const GraphTensor& result = dense.output();
    const bool is_virtual = result.is_virtual;
    for (const GraphTensor* tensor : {&dense.x, &dense.w, &dense.y}) {
      HOSTGPU_REFUSE_IF(tensor != &result && tensor->is_virtual,
                        CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    }
    if (is_virtual) {
      const bool is_forward = operation.operation() == Operation::kForward;
      HOSTGPU_REFUSE_IF(operation.operation() == Operation::kBackwardFilter || is_last,
                        CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
      HOSTGPU_REFUSE_IF(operation.beta != 0, CUDNN_STATUS_NOT_SUPPORTED);
      HOSTGPU_REFUSE_IF(!(is_forward ? dense.y : dense.x).MakeDense(),
                        CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    }
    ConvolutionPart part{};
    if (auto status = DescribeConvolution(dense, &part.problem)) return status;
    part.alpha = operation.alpha;
    part.beta = operation.beta;
    part.is_virtual = is_virtual;
    const char* const names[] = {"the image (x)", "the filter (w)", "the output (y)"};
    const GraphTensor* const tensors[] = {&dense.x, &dense.w, &dense.y};
    for (int i = 0; i < 3; ++i) {
      part.unique_ids[i] = tensors[i]->unique_id;
      part.alignments[i] = tensors[i]->alignment;
      if (tensors[i] == &result && is_virtual) continue;
      if (auto status = AddOperand(names[i], *tensors[i])) return status;
    }
    SetDims(result);
    if (is_virtual) {
      part.result = static_cast<int>(program().operands.size());
      program().operands.push_back(
          {result.unique_id, ResultType(part.problem.shape), result.strides, false});
      in_memory_[result.unique_id] = part.result;
    }
    program().in_double = IsWide(ResultType(part.problem.shape));
    computation_.convolution = part;
    return CUDNN_STATUS_SUCCESS;
  }

  cudnnStatus_t Add(const PointwiseOperation& operation, bool) {
    const PointwiseArity arity = ArityOf(operation.pointwise.mode);
    HOSTGPU_REFUSE_IF(!IsComputable(operation.pointwise.mode),
                      CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    const GraphTensor& result = operation.output();
    HOSTGPU_REFUSE_IF(computation_.sums.has_value(), CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    if (program().dim_count == 0) SetDims(result);
    ProgramStep step{};
    step.function = operation.pointwise;
    step.alpha1 = operation.alpha1;
    step.alpha2 = operation.alpha2;
    if (arity == PointwiseArity::kUnary || arity == PointwiseArity::kBackward) {
      HOSTGPU_REFUSE_IF(operation.HasMask(), CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    }
    if (arity == PointwiseArity::kBackward) {
      if (auto status = Input(operation.x, &step.x)) return status;
      if (auto status = Input(operation.dy, &step.b)) return status;
    } else {
      if (auto status = Input(operation.x, &step.x)) return status;
      if (arity != PointwiseArity::kUnary) {
        if (auto status = Input(operation.b, &step.b)) return status;
      }
      if (arity == PointwiseArity::kTernary) {
        if (auto status = Input(operation.t, &step.t)) return status;
      }
    }
    if (auto status = Output(result, &step)) return status;
    if (operation.pointwise.math_precision == CUDNN_DATA_DOUBLE) program().in_double = true;
    program().steps.push_back(step);
    return CUDNN_STATUS_SUCCESS;
  }

  // The operation must be the only one of the graph, and its tensors must be in memory.
  cudnnStatus_t Add(const TensorOperation& operation, bool) {
    HOSTGPU_REFUSE_IF(operation.concatenates() || program().dim_count != 0,
                      CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    const GraphTensor& x = operation.inputs[0];
    HOSTGPU_REFUSE_IF(x.dim_count < 2, CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    SetDims(x);
    for (const auto* tensors : {&operation.inputs, &operation.outputs}) {
      for (const GraphTensor& tensor : *tensors) {
        HOSTGPU_REFUSE_IF(tensor.is_virtual, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
        // Only the summed tensors, x and dy, have more than one value per channel.
        const bool whole = tensors == &operation.inputs && &tensor - tensors->data() < 2;
        HOSTGPU_REFUSE_IF(tensor.dim_count != x.dim_count, CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
        for (int i = 0; i < x.dim_count; ++i) {
          HOSTGPU_REFUSE_IF(tensor.dims[i] != (whole || i == 1 ? x.dims[i] : 1),
                            CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
        }
        ProgramValue value;
        if (auto status = InMemory("a tensor of sums over channels", tensor, &value)) return status;
      }
    }
    computation_.sums = operation.kind() == CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR
                            ? ChannelSums::kStatistics
                            : ChannelSums::kNormalizationGradients;
    return CUDNN_STATUS_SUCCESS;
  }

 private:
  PointwiseProgram& program() { return computation_.program; }

  void SetDims(const GraphTensor& tensor) {
    program().dim_count = tensor.dim_count;
    program().dims = tensor.dims;
  }

  cudnnStatus_t AddOperand(const char* name, const GraphTensor& tensor) {
    size_t bytes = 0;
    HOSTGPU_REFUSE_IF(!tensor.SpanBytes(&bytes), CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    for (GraphOperand& operand : computation_.operands) {
      if (operand.unique_id != tensor.unique_id) continue;
      operand.bytes = std::max(operand.bytes, bytes);
      operand.alignment = std::max(operand.alignment, tensor.alignment);
      return CUDNN_STATUS_SUCCESS;
    }
    computation_.operands.push_back(
        {name, tensor.unique_id, tensor.alignment, bytes, tensor.is_by_value});
    return CUDNN_STATUS_SUCCESS;
  }

  // Adds a tensor in memory to the program's operands.
  cudnnStatus_t InMemory(const char* name, const GraphTensor& tensor, ProgramValue* value) {
    HOSTGPU_REFUSE_IF(tensor.vector_count != 1 || tensor.is_ragged ||
                          tensor.reordering != CUDNN_TENSOR_REORDERING_NONE,
                      CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
    DataType type;
    HOSTGPU_REFUSE_IF(!OperandType(tensor.type, &type), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    HOSTGPU_REFUSE_IF(tensor.dim_count != program().dim_count, CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    GraphTensor::Extents strides{};
    for (int i = 0; i < tensor.dim_count; ++i) {
      HOSTGPU_REFUSE_IF(tensor.dims[i] < 1, CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
      HOSTGPU_REFUSE_IF(tensor.dims[i] != program().dims[i] && tensor.dims[i] != 1,
                        CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
      strides[i] = tensor.dims[i] == 1 ? 0 : tensor.strides[i];
    }
    if (IsWide(type)) program().in_double = true;
    *value = {ProgramValue::Place::kMemory, static_cast<int>(program().operands.size())};
    program().operands.push_back({tensor.unique_id, type, strides, tensor.is_by_value});
    return AddOperand(name, tensor);
  }

  cudnnStatus_t Input(const GraphTensor& tensor, ProgramValue* value) {
    HOSTGPU_REFUSE_IF(tensor.dim_count == 0, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    if (!tensor.is_virtual) return InMemory("an input of a pointwise operation", tensor, value);
    if (const auto found = in_memory_.find(tensor.unique_id); found != in_memory_.end()) {
      *value = {ProgramValue::Place::kMemory, found->second};
      return CUDNN_STATUS_SUCCESS;
    }
    const auto found = registers_.find(tensor.unique_id);
    HOSTGPU_REFUSE_IF(found == registers_.end(), CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    *value = {ProgramValue::Place::kRegister, found->second};
    return CUDNN_STATUS_SUCCESS;
  }

  cudnnStatus_t Output(const GraphTensor& tensor, ProgramStep* step) {
    HOSTGPU_REFUSE_IF(tensor.dim_count != program().dim_count || tensor.is_by_value,
                      CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    for (int i = 0; i < tensor.dim_count; ++i) {
      HOSTGPU_REFUSE_IF(tensor.dims[i] != program().dims[i] || tensor.dims[i] < 1,
                        CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
      HOSTGPU_REFUSE_IF(!tensor.is_virtual && tensor.dims[i] > 1 && tensor.strides[i] == 0,
                        CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
    }
    step->to_type = tensor.type;
    if (!tensor.is_virtual) {
      return InMemory("the output of a pointwise operation", tensor, &step->to);
    }
    DataType type;
    HOSTGPU_REFUSE_IF(!OperandType(tensor.type, &type), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    const int index = program().register_count++;
    registers_[tensor.unique_id] = index;
    step->to = {ProgramValue::Place::kRegister, index};
    return CUDNN_STATUS_SUCCESS;
  }

  Computation& computation_;
  std::map<int64_t, int> in_memory_;  // operands by unique id
  std::map<int64_t, int> registers_;
};

}  // namespace

cudnnStatus_t LowerFused(const std::vector<GraphOperation>& operations, Computation* computation) {
  Lowering lowering(computation);
  for (size_t i = 0; i < operations.size(); ++i) {
    const bool is_last = i + 1 == operations.size();
    const cudnnStatus_t status = std::visit(
        [&](const auto& operation) { return lowering.Add(operation, is_last); }, operations[i]);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Lower(const std::vector<GraphOperation>& operations, Computation* computation) {
  Computation fused;
  const cudnnStatus_t status = LowerFused(operations, &fused);
  if (status == CUDNN_STATUS_SUCCESS) {
    *computation = std::move(fused);
    return status;
  }
  return NeedsStages(operations) ? LowerInStages(operations, computation) : status;
}

}  // namespace hostgpu
