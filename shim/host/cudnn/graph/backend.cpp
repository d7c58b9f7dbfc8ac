// The cudnnBackend functions. They make the checks that all descriptors share, and call the
// descriptor's own functions.
#include "shim/host/cudnn/graph/descriptor.h"
#include "shim/host/cudnn/graph/heuristics.h"
#include "shim/host/cudnn/graph/kernel_cache.h"
#include "shim/host/cudnn/graph/plan.h"
#include "shim/host/cudnn/handle.h"

namespace hostgpu {

std::unique_ptr<GraphDescriptor> NewGraphDescriptor(cudnnBackendDescriptorType_t kind) {
  switch (kind) {
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      return std::make_unique<GraphPointwise>();
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return std::make_unique<GraphConvolution>();
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      return std::make_unique<Engine>();
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      return std::make_unique<EngineConfig>();
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return std::make_unique<EngineHeuristics>();
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return std::make_unique<ExecutionPlan>();
    case CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR:
      return std::make_unique<KernelCache>();
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
      return std::make_unique<KnobChoice>();
    case CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR:
      return std::make_unique<KnobInfo>();
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return std::make_unique<ConvolutionOperation>(kind);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return std::make_unique<PointwiseOperation>();
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR:
      return std::make_unique<TensorOperation>(kind);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return std::make_unique<OperationGraph>();
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return std::make_unique<VariantPack>();
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return std::make_unique<GraphTensor>();
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
      return std::make_unique<DeviceProperties>();
    default:
      return nullptr;
  }
}

namespace {

// Returns the object of an application's handle. cudnnBackendInitialize resets the object but does
// not replace it.
GraphDescriptor* Behind(cudnnBackendDescriptor_t descriptor) {
  return static_cast<GraphDescriptor*>(descriptor);
}

cudnnStatus_t FindPlan(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                       cudnnBackendDescriptor_t pack, const ExecutionPlan** found_plan,
                       const VariantPack** found_pack) {
  HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(plan == nullptr || pack == nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  *found_plan = As<ExecutionPlan>(plan);
  *found_pack = As<VariantPack>(pack);
  HOSTGPU_REFUSE_IF(*found_plan == nullptr || *found_pack == nullptr,
                    CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
  HOSTGPU_REFUSE_IF(!(*found_plan)->finalized() || !(*found_pack)->finalized(),
                    CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  return CUDNN_STATUS_SUCCESS;
}

// Points to ExecutionPlan::Populate or ExecutionPlan::Update.
using NativeGraph = cudnnStatus_t (ExecutionPlan::*)(cudaGraph_t, const VariantPack&) const;

cudnnStatus_t Native(NativeGraph function, cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                     cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
  return Protect([&] {
    const ExecutionPlan* found_plan = nullptr;
    const VariantPack* found_pack = nullptr;
    if (auto status = FindPlan(handle, plan, pack, &found_plan, &found_pack)) return status;
    HOSTGPU_REFUSE_IF(graph == nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    return (found_plan->*function)(graph, *found_pack);
  });
}

}  // namespace
}  // namespace hostgpu

using namespace hostgpu;

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t descriptorType,
                                           cudnnBackendDescriptor_t* descriptor) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF(descriptor == nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    auto created = NewGraphDescriptor(descriptorType);
    HOSTGPU_REFUSE_IF(created == nullptr && descriptorType >= 0 &&
                          descriptorType <= CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR &&
                          descriptorType != CUDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR,
                      CUDNN_STATUS_NOT_SUPPORTED);
    HOSTGPU_REFUSE_IF(created == nullptr, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    *descriptor = created.release();
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  HOSTGPU_REFUSE_IF(descriptor == nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  delete Behind(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF(descriptor == nullptr, CUDNN_STATUS_BAD_PARAM);
    Behind(descriptor)->Reset();
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF(descriptor == nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    GraphDescriptor* behind = Behind(descriptor);
    HOSTGPU_REFUSE_IF(behind->finalized(), CUDNN_STATUS_BAD_PARAM);
    if (auto status = behind->Complete()) return status;
    behind->set_finalized(true);
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t attributeName,
                                       cudnnBackendAttributeType_t attributeType,
                                       int64_t elementCount, const void* arrayOfElements) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF(descriptor == nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    GraphDescriptor* behind = Behind(descriptor);
    HOSTGPU_REFUSE_IF(behind->finalized(), CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(arrayOfElements == nullptr, CUDNN_STATUS_BAD_PARAM);
    return behind->Set({attributeName, attributeType, elementCount, arrayOfElements});
  });
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t attributeName,
                                       cudnnBackendAttributeType_t attributeType,
                                       int64_t requestedElementCount, int64_t* elementCount,
                                       void* arrayOfElements) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF(descriptor == nullptr, CUDNN_STATUS_BAD_PARAM);
    const GraphDescriptor* behind = Behind(descriptor);
    HOSTGPU_REFUSE_IF(!behind->finalized(), CUDNN_STATUS_NOT_INITIALIZED);
    HOSTGPU_REFUSE_IF(arrayOfElements != nullptr && requestedElementCount < 0,
                      CUDNN_STATUS_BAD_PARAM);
    return behind->Get(
        {attributeName, attributeType, requestedElementCount, elementCount, arrayOfElements});
  });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan,
                                  cudnnBackendDescriptor_t variantPack) {
  return Protect([&] {
    const ExecutionPlan* plan = nullptr;
    const VariantPack* pack = nullptr;
    if (auto status = FindPlan(handle, executionPlan, variantPack, &plan, &pack)) return status;
    return plan->Execute(handle, *pack);
  });
}

cudnnStatus_t cudnnBackendPopulateCudaGraph(cudnnHandle_t handle,
                                            cudnnBackendDescriptor_t executionPlan,
                                            cudnnBackendDescriptor_t variantPack,
                                            cudaGraph_t graph) {
  return Native(&ExecutionPlan::Populate, handle, executionPlan, variantPack, graph);
}

cudnnStatus_t cudnnBackendUpdateCudaGraph(cudnnHandle_t handle,
                                          cudnnBackendDescriptor_t executionPlan,
                                          cudnnBackendDescriptor_t variantPack, cudaGraph_t graph) {
  return Native(&ExecutionPlan::Update, handle, executionPlan, variantPack, graph);
}

}  // extern "C"
