#include "shim/host/cudnn/graph/plan.h"

#include "shim/host/cudnn/graph/kernel_cache.h"
#include "shim/host/cudnn/graph/plan_json.h"
#include "shim/host/hostgpu.h"

namespace hostgpu {

cudnnStatus_t ExecutionPlan::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
      return attribute.One(CUDNN_TYPE_HANDLE, &handle_);
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
      return TakeChild(attribute, &config_);
    case CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP:
      return TakeChild(attribute, &device_);
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
      HOSTGPU_REFUSE_IF(attribute.count < 0, CUDNN_STATUS_BAD_PARAM);
      json_.assign(static_cast<const char*>(attribute.values),
                   static_cast<size_t>(attribute.count));
      from_json_ = true;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE: {
      KernelCache cache;  // checked, but not stored
      if (auto status = TakeChild(attribute, &cache)) return status;
      HOSTGPU_REFUSE_IF(!cache.finalized(), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    case CUDNN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS:
    case CUDNN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "an attribute this library's plans do not take");
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of an execution plan");
  }
}

cudnnStatus_t ExecutionPlan::Get(const AttributeRequest& request) const {
  switch (request.name) {
    case CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
      return request.One(CUDNN_TYPE_HANDLE, handle_);
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
      return GiveChild(request, config_);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return request.One(CUDNN_TYPE_INT64, static_cast<int64_t>(config_.setup().workspace_bytes));
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
      return GiveText(request, PlanToJson(config_, device_.profile()));
    case CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP:
      return GiveChild(request, device_);
    case CUDNN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS:
    case CUDNN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "intermediates");
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of an execution plan");
  }
}

cudnnStatus_t ExecutionPlan::Complete() {
  HOSTGPU_REFUSE_IF(hostgpuFaultDue("plan"), CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
  if (!from_json_) {
    HOSTGPU_REFUSE_IF(!config_.finalized(), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    if (!device_.finalized()) device_ = config_.engine.device;
  }
  if (!device_.finalized()) {
    if (auto status = device_.Complete()) return status;
    device_.set_finalized(true);
  }
  return from_json_ ? PlanFromJson(json_, device_, &config_) : CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
