#include "shim/host/cudnn/graph/operation_graph.h"

#include <map>

#include "shim/host/cudnn/graph/computation.h"
#include "shim/host/cudnn/graph/engine.h"

namespace hostgpu {
namespace {

cudnnStatus_t TakeOperations(const Attribute& attribute, std::vector<GraphOperation>* operations) {
  HOSTGPU_REFUSE_IF(attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR,
                    CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  std::vector<GraphOperation> taken;
  for (int64_t i = 0; i < attribute.count; ++i) {
    void* handle = attribute.Value<void*>(i);
    HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    HOSTGPU_REFUSE_IF(!static_cast<GraphDescriptor*>(handle)->finalized(),
                      CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    if (const auto* convolution = As<ConvolutionOperation>(handle)) {
      taken.emplace_back(*convolution);
    } else if (const auto* pointwise = As<PointwiseOperation>(handle)) {
      taken.emplace_back(*pointwise);
    } else {
      return Refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor that is no operation");
    }
  }
  *operations = std::move(taken);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

const GraphTensor& OutputOf(const GraphOperation& operation) {
  return std::visit([](const auto& o) -> const GraphTensor& { return o.output(); }, operation);
}

std::vector<const GraphTensor*> InputsOf(const GraphOperation& operation) {
  std::vector<const GraphTensor*> inputs;
  if (const auto* convolution = std::get_if<ConvolutionOperation>(&operation)) {
    for (const auto* tensor : {&convolution->x, &convolution->w, &convolution->y}) {
      if (tensor != &convolution->output()) inputs.push_back(tensor);
    }
  } else {
    const auto& pointwise = std::get<PointwiseOperation>(operation);
    for (const auto* tensor : {&pointwise.x, &pointwise.b, &pointwise.t, &pointwise.y,
                               &pointwise.dy}) {
      if (tensor != &pointwise.output() && tensor->dim_count > 0) inputs.push_back(tensor);
    }
  }
  return inputs;
}

cudnnStatus_t OrderOperations(std::vector<GraphOperation>* operations) {
  std::map<int64_t, size_t> producer;
  for (size_t i = 0; i < operations->size(); ++i) {
    const GraphOperation& operation = (*operations)[i];
    const GraphTensor& output = OutputOf(operation);
    HOSTGPU_REFUSE_IF(!output.finalized(), CUDNN_STATUS_BAD_PARAM);
    for (const GraphTensor* input : InputsOf(operation)) {
      HOSTGPU_REFUSE_IF(!input->finalized(), CUDNN_STATUS_BAD_PARAM);
    }
    HOSTGPU_REFUSE_IF(!producer.emplace(output.unique_id, i).second, CUDNN_STATUS_BAD_PARAM);
  }
  std::vector<GraphOperation> ordered;
  std::vector<bool> placed(operations->size(), false);
  // An operation follows once all it reads is there; those of a cycle never do.
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t i = 0; i < operations->size(); ++i) {
      if (placed[i]) continue;
      bool ready = true;
      for (const GraphTensor* input : InputsOf((*operations)[i])) {
        const auto found = producer.find(input->unique_id);
        if (found == producer.end() || found->second == i) continue;
        ready = ready && placed[found->second];
      }
      if (!ready) continue;
      placed[i] = progress = true;
      ordered.push_back((*operations)[i]);
    }
  }
  HOSTGPU_REFUSE_IF(ordered.size() != operations->size(), CUDNN_STATUS_BAD_PARAM);
  *operations = std::move(ordered);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t OperationGraph::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_OPERATIONGRAPH_HANDLE: {
      // Only checked: the stand-in's devices are all alike.
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
  // A graph no engine computes is a valid graph: engines say so.
  Computation computation;
  if (!dynamic_shapes_ && Lower(ordered, &computation) == CUDNN_STATUS_SUCCESS) {
    computation_ = std::make_shared<const Computation>(std::move(computation));
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
