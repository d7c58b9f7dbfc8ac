// Divides a graph that the stand-in cannot compute in one pass into stages.
#include <set>

#include "shim/host/cudnn/graph/computation.h"
#include "shim/host/cudnn/refusal.h"

namespace hostgpu {
namespace {

constexpr size_t kStageAlignment = 256;

class Staging {
 public:
  explicit Staging(Computation* computation) : computation_(*computation) {}

  // Stores the type that virtual operands of the convolution get: the filter's type, as the engines
  // require. For int8 the declared types stay, because the results are sums in the declared type.
  cudnnStatus_t TakeTypes(const ConvolutionOperation& convolution) {
    HOSTGPU_REFUSE_IF(convolution.w.is_virtual, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    HOSTGPU_REFUSE_IF(convolution.output().is_virtual && convolution.beta != 0,
                      CUDNN_STATUS_NOT_SUPPORTED);
    if (convolution.w.type == CUDNN_DATA_INT8) return CUDNN_STATUS_SUCCESS;
    convolution_type_ = convolution.w.type;
    of_convolution_ = {convolution.x.unique_id, convolution.y.unique_id};
    return CUDNN_STATUS_SUCCESS;
  }

  cudnnStatus_t Add(GraphOperation operation) {
    for (const auto& tensors : {InputsOf(operation), OutputsOf(operation)}) {
      for (const GraphTensor* tensor : tensors) {
        // Removing const is allowed, because `tensor` is a member of `operation`, which this
        // function owns.
        if (tensor->is_virtual) {
          if (auto status = Place(const_cast<GraphTensor*>(tensor))) return status;
        }
      }
    }
    const auto* tensors = std::get_if<TensorOperation>(&operation);
    if (tensors != nullptr && tensors->concatenates()) return Concatenate(*tensors);
    Computation stage;
    if (auto status = LowerFused({operation}, &stage)) return status;
    return AddStage(std::move(stage));
  }

 private:
  // Reserves space in the workspace for a virtual tensor.
  cudnnStatus_t Place(GraphTensor* tensor) {
    if (of_convolution_.count(tensor->unique_id) != 0) tensor->type = convolution_type_;
    tensor->is_virtual = false;
    tensor->alignment = kStageAlignment;
    size_t bytes = 0;
    HOSTGPU_REFUSE_IF(!tensor->MakeDense() || !tensor->SpanBytes(&bytes),
                      CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    if (!placed_.insert(tensor->unique_id).second) return CUDNN_STATUS_SUCCESS;
    computation_.staged.push_back({tensor->unique_id, computation_.staged_bytes});
    computation_.staged_bytes += (bytes + kStageAlignment - 1) / kStageAlignment * kStageAlignment;
    HOSTGPU_REFUSE_IF(computation_.staged_bytes > SIZE_MAX / 4, CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    return CUDNN_STATUS_SUCCESS;
  }

  // Adds one copy for each input, except for an input that is already a part of the result.
  cudnnStatus_t Concatenate(const TensorOperation& operation) {
    const GraphTensor& whole = operation.outputs[0];
    size_t whole_bytes = 0;
    HOSTGPU_REFUSE_IF(!whole.SpanBytes(&whole_bytes), CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    int64_t first = 0;
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
      const GraphTensor& input = operation.inputs[i];
      const int64_t before = first;
      first += input.dims[operation.axis];
      if (static_cast<int64_t>(i) == operation.in_place_index) {
        HOSTGPU_REFUSE_IF(placed_.count(input.unique_id) != 0,
                          CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
        continue;
      }
      HOSTGPU_REFUSE_IF(input.type != whole.type, CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
      PointwiseOperation copy;
      copy.pointwise.mode = CUDNN_POINTWISE_IDENTITY;
      copy.x = input;
      copy.y = whole;
      copy.y.dims = input.dims;
      Computation stage;
      if (auto status = LowerFused({copy}, &stage)) return status;
      stage.program.operands.back().first = before * whole.strides[operation.axis];
      stage.operands.back().bytes = whole_bytes;
      if (auto status = AddStage(std::move(stage))) return status;
    }
    return CUDNN_STATUS_SUCCESS;
  }

  cudnnStatus_t AddStage(Computation stage) {
    for (const GraphOperand& operand : stage.operands) {
      if (placed_.count(operand.unique_id) != 0) continue;
      const auto known =
          std::find_if(computation_.operands.begin(), computation_.operands.end(),
                       [&](const auto& other) { return other.unique_id == operand.unique_id; });
      if (known == computation_.operands.end()) {
        computation_.operands.push_back(operand);
        continue;
      }
      known->bytes = std::max(known->bytes, operand.bytes);
      known->alignment = std::max(known->alignment, operand.alignment);
    }
    computation_.stages.push_back(std::move(stage));
    return CUDNN_STATUS_SUCCESS;
  }

  Computation& computation_;
  int convolution_type_ = CUDNN_DATA_FLOAT;
  std::set<int64_t> of_convolution_;  // unique ids of the convolution's x and y
  std::set<int64_t> placed_;
};

}  // namespace

bool NeedsStages(const std::vector<GraphOperation>& operations) {
  int convolutions = 0;
  bool has_sums_or_concatenation = false, precedes = false;
  for (const GraphOperation& operation : operations) {
    has_sums_or_concatenation |= std::holds_alternative<TensorOperation>(operation);
    if (!std::holds_alternative<ConvolutionOperation>(operation)) continue;
    ++convolutions;
    precedes |= &operation != &operations.front();
  }
  return convolutions <= 1 && (has_sums_or_concatenation || precedes);
}

cudnnStatus_t LowerInStages(const std::vector<GraphOperation>& operations,
                            Computation* computation) {
  Staging staging(computation);
  for (const GraphOperation& operation : operations) {
    const auto* convolution = std::get_if<ConvolutionOperation>(&operation);
    if (convolution == nullptr) continue;
    if (auto status = staging.TakeTypes(*convolution)) return status;
  }
  for (const GraphOperation& operation : operations) {
    if (auto status = staging.Add(operation)) return status;
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
