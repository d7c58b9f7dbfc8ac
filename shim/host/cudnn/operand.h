// Checks a tensor argument of an elementwise function, and converts its device pointer to a host
// address.
#pragma once

#include "shim/host/cudnn/descriptors.h"
#include "shim/host/cudnn/device_memory.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/cudnn/problem.h"
#include "shim/host/cudnn/refusal.h"

namespace hostgpu {

// Sets `type` and `host` for the tensor. Returns BAD_PARAM for a null pointer or a descriptor that
// was never set, NOT_SUPPORTED for negative strides and for types that the engines do not support,
// and the status that Resolve returns for an address that would fault on a GPU.
inline cudnnStatus_t ResolveTensor(cudnnHandle_t handle, const char* name,
                                   cudnnTensorDescriptor_t tensor, const void* address,
                                   DataType* type, void** host) {
  HOSTGPU_REFUSE_IF(tensor == nullptr || address == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(tensor->dim_count == 0, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!EngineType(tensor->type, type), CUDNN_STATUS_NOT_SUPPORTED);
  for (int i = 0; i < tensor->dim_count; ++i) {
    HOSTGPU_REFUSE_IF(tensor->strides[i] < 0, CUDNN_STATUS_NOT_SUPPORTED);
  }
  const size_t element_bytes = ElementBytes(tensor->type);
  HOSTGPU_REFUSE_IF(DeviceFaulted(), CUDNN_STATUS_EXECUTION_FAILED_CUDART);
  return Resolve(name, address, static_cast<size_t>(tensor->span) * element_bytes, element_bytes,
                 WhenRuns(handle), host);
}

}  // namespace hostgpu
