#include "shim/host/cudnn/graph/operation_graph.h"

#include <map>

#include "shim/host/cudnn/graph/computation.h"
#include "shim/host/cudnn/graph/engine.h"

namespace hostgpu {
namespace {

// Appends the attribute's operations to `operations`, up to the first operation that is refused.
cudnnStatus_t TakeOperations(const Attribute& attribute, std::vector<GraphOperation>* operations) {
  HOSTGPU_REFUSE_IF(attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR,
                    CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  for (int64_t i = 0; i < attribute.count; ++i) {
    void* handle = attribute.Value<void*>(i);
    HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    HOSTGPU_REFUSE_IF(!static_cast<GraphDescriptor*>(handle)->finalized(),
                      CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    if (const auto* convolution = As<ConvolutionOperation>(handle)) {
      operations->emplace_back(*convolution);
    } else if (const auto* pointwise = As<PointwiseOperation>(handle)) {
      operations->emplace_back(*pointwise);
    } else if (const auto* tensors = As<TensorOperation>(handle)) {
      operations->emplace_back(*tensors);
    } else {
      return Refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor that is no operation");
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

std::vector<const GraphTensor*> OutputsOf(const GraphOperation& operation) {
  if (const auto* convolution = std::get_if<ConvolutionOperation>(&operation)) {
    return {&convolution->output()};
  }
  if (const auto* pointwise = std::get_if<PointwiseOperation>(&operation)) {
    return {&pointwise->output()};
  }
  std::vector<const GraphTensor*> outputs;
  for (const GraphTensor& tensor : std::get<TensorOperation>(operation).outputs) {
    outputs.push_back(&tensor);
  }
  return outputs;
}

std::vector<const GraphTensor*> InputsOf(const GraphOperation& operation) {
  std::vector<const GraphTensor*> inputs;
  if (const auto* convolution = std::get_if<ConvolutionOperation>(&operation)) {
    for (const auto* tensor : {&convolution->x, &convolution->w, &convolution->y}) {
      if (tensor != &convolution->output()) inputs.push_back(tensor);
    }
    return inputs;
  }
  if (const auto* tensors = std::get_if<TensorOperation>(&operation)) {
    for (const GraphTensor& tensor : tensors->inputs) inputs.push_back(&tensor);
    return inputs;
  }
  const auto& pointwise = std::get<PointwiseOperation>(operation);
  switch (ArityOf(pointwise.pointwise.mode)) {
    case PointwiseArity::kTernary:
      inputs = {&pointwise.x, &pointwise.b, &pointwise.t};
      break;
    case PointwiseArity::kBinary:
      inputs = {&pointwise.x, &pointwise.b};
      break;
    case PointwiseArity::kBackward:
      inputs = {pointwise.HasMask() ? &pointwise.t : &pointwise.x, &pointwise.dy};
      break;
    default:
      inputs = {&pointwise.x};
  }
  return inputs;
}

namespace {

// Returns true if the producer and a consumer of a tensor describe it alike.
bool Agree(const GraphTensor& a, const GraphTensor& b) {
  return a.type == b.type && a.dim_count == b.dim_count && a.dims == b.dims &&
         a.strides == b.strides && a.alignment == b.alignment && a.is_virtual == b.is_virtual &&
         a.is_by_value == b.is_by_value && a.reordering == b.reordering;
}

// Returns the mask, the tensor that an operation writes in addition to its output; null if there is
// none.
const GraphTensor* MaskOf(const GraphOperation& operation) {
  const auto* pointwise = std::get_if<PointwiseOperation>(&operation);
  if (pointwise == nullptr || !pointwise->HasMask()) return nullptr;
  return ArityOf(pointwise->pointwise.mode) == PointwiseArity::kUnary ? &pointwise->t : nullptr;
}

bool HasUnknownMode(const GraphOperation& operation) {
  const auto* pointwise = std::get_if<PointwiseOperation>(&operation);
  return pointwise != nullptr && ArityOf(pointwise->pointwise.mode) == PointwiseArity::kUnknown;
}

}  // namespace

cudnnStatus_t OrderOperations(std::vector<GraphOperation>* operations) {
  for (const GraphOperation& operation : *operations) {
    HOSTGPU_REFUSE_IF(HasUnknownMode(operation), CUDNN_STATUS_NOT_INITIALIZED);
    for (const GraphTensor* output : OutputsOf(operation)) {
      HOSTGPU_REFUSE_IF(!output->finalized(), CUDNN_STATUS_BAD_PARAM);
    }
    for (const GraphTensor* input : InputsOf(operation)) {
      HOSTGPU_REFUSE_IF(!input->finalized(), CUDNN_STATUS_BAD_PARAM);
    }
  }
  struct Producer {
    size_t operation;
    const GraphTensor* output;
  };
  std::map<int64_t, Producer> producers;
  for (size_t i = 0; i < operations->size(); ++i) {
    std::vector<const GraphTensor*> outputs = OutputsOf((*operations)[i]);
    outputs.push_back(MaskOf((*operations)[i]));
    for (const GraphTensor* output : outputs) {
      if (output == nullptr) continue;
      HOSTGPU_REFUSE_IF(!producers.emplace(output->unique_id, Producer{i, output}).second,
                        CUDNN_STATUS_BAD_PARAM);
    }
  }
  for (size_t i = 0; i < operations->size(); ++i) {
    for (const GraphTensor* input : InputsOf((*operations)[i])) {
      const auto found = producers.find(input->unique_id);
      if (found == producers.end() || found->second.operation == i) continue;
      HOSTGPU_REFUSE_IF(!Agree(*found->second.output, *input), CUDNN_STATUS_BAD_PARAM);
    }
  }
  std::vector<GraphOperation> ordered;
  std::vector<bool> placed(operations->size(), false);
  // An operation is placed in `ordered` once the producers of all its inputs are placed there.
  // Operations of a cycle, and operations that depend on a cycle, are never placed. An operation
  // may read its own output.
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t i = 0; i < operations->size(); ++i) {
      if (placed[i]) continue;
      bool ready = true;
      for (const GraphTensor* input : InputsOf((*operations)[i])) {
        const auto found = producers.find(input->unique_id);
        if (found == producers.end() || found->second.operation == i) continue;
        ready = ready && placed[found->second.operation];
      }
      if (!ready) continue;
      placed[i] = progress = true;
      ordered.push_back((*operations)[i]);
    }
  }
  // As in the real library, a graph with a cycle is accepted if some operation outside the cycle
  // can be placed.
  HOSTGPU_REFUSE_IF(ordered.empty(), CUDNN_STATUS_BAD_PARAM);
  *operations = std::move(ordered);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t OperationGraph::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_OPERATIONGRAPH_HANDLE: {
      // The handle is only checked, because all devices of the stand-in are equal.
      cudnnHandle_t handle = nullptr;
      if (auto status = attribute.One(CUDNN_TYPE_HANDLE, &handle, CUDNN_STATUS_NOT_INITIALIZED)) {
        return status;
      }
      HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_OPERATIONGRAPH_OPS:
      return TakeOperations(attribute, &operations_);
    case CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED:
      return attribute.One(CUDNN_TYPE_BOOLEAN, &dynamic_shapes_);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of an operation graph");
  }
}

cudnnStatus_t OperationGraph::Get(const AttributeRequest& request) const {
  switch (request.name) {
    case CUDNN_ATTR_OPERATIONGRAPH_HANDLE:
    case CUDNN_ATTR_OPERATIONGRAPH_OPS:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "an attribute that is not read back");
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
      return request.One(CUDNN_TYPE_INT64,
                         computation_ ? GraphEngineCount(*computation_) : int64_t{0});
    case CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED:
      return request.One(CUDNN_TYPE_BOOLEAN, dynamic_shapes_);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of an operation graph");
  }
}

cudnnStatus_t OperationGraph::Complete() {
  HOSTGPU_REFUSE_IF(operations_.empty(), CUDNN_STATUS_BAD_PARAM);
  std::vector<GraphOperation> ordered = operations_;
  if (auto status = OrderOperations(&ordered)) return status;
  // A graph that no engine can compute is still valid, but has no engines.
  Computation computation;
  // Graphs with dynamic shapes run too: the engines support any shape, and each graph is made with
  // one shape.
  const bool runnable = ordered.size() == operations_.size();
  if (runnable && Lower(ordered, &computation) == CUDNN_STATUS_SUCCESS) {
    computation_ = std::make_shared<const Computation>(std::move(computation));
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
