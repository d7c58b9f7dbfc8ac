#include "shim/host/cudnn/graph/kernel_cache.h"

#include "shim/host/cudnn/graph/operation_graph.h"

namespace hostgpu {

cudnnStatus_t KernelCache::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH: {
      OperationGraph graph;  // checked, but not stored
      if (auto status = TakeChild(attribute, &graph)) return status;
      HOSTGPU_REFUSE_IF(!graph.finalized(), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION:
    case CUDNN_ATTR_KERNEL_CACHE_IS_ENGINECFG_KERNEL_CACHED:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "nothing is kept in a cache of kernels");
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a kernel cache");
  }
}

cudnnStatus_t KernelCache::Get(const AttributeRequest& request) const {
  switch (request.name) {
    case CUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH:
    case CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION:
    case CUDNN_ATTR_KERNEL_CACHE_IS_ENGINECFG_KERNEL_CACHED:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "nothing is kept in a cache of kernels");
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a kernel cache");
  }
}

}  // namespace hostgpu
