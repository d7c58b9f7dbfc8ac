#include "shim/host/cudnn/execution.h"

#include "shim/host/cudnn/device_memory.h"
#include "shim/host/cudnn/first_touch.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/cudnn/refusal.h"
#include "shim/host/cudnn/workspace_guard.h"

namespace hostgpu {

size_t RequiredAlignment(const Problem& problem, int algorithm) {
  return algorithm == 0 ? problem.element_bytes : 16;
}

cudnnStatus_t Check(cudnnHandle_t handle, const Problem& problem, int algorithm,
                    const DevicePointers& pointers, Operands* operands) {
  HOSTGPU_REFUSE_IF(pointers.x == nullptr || pointers.w == nullptr || pointers.y == nullptr,
                    CUDNN_STATUS_BAD_PARAM);
  *operands = {};
  if (auto status = RequiredWorkspace(problem, algorithm, &operands->workspace_needed)) {
    return status;
  }
  const bool uses_workspace = operands->workspace_needed > 0;
  HOSTGPU_REFUSE_IF(uses_workspace && (pointers.workspace == nullptr ||
                                       pointers.workspace_bytes < operands->workspace_needed),
                    CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
  HOSTGPU_REFUSE_IF(DeviceFaulted(), CUDNN_STATUS_EXECUTION_FAILED_CUDART);

  const size_t alignment = RequiredAlignment(problem, algorithm);
  const Runs runs = WhenRuns(handle);
  const auto resolve = [&](const char* name, const void* address, size_t bytes, void** host) {
    return Resolve(name, address, bytes, alignment, runs, host);
  };
  if (auto status = resolve("the image (x)", pointers.x, problem.bytes.x, &operands->x)) {
    return status;
  }
  if (auto status = resolve("the filter (w)", pointers.w, problem.bytes.w, &operands->w)) {
    return status;
  }
  if (auto status = resolve("the output (y)", pointers.y, problem.bytes.y, &operands->y)) {
    return status;
  }
  if (!uses_workspace) return CUDNN_STATUS_SUCCESS;
  operands->workspace_offered = pointers.workspace_bytes;
  return resolve("the workspace", pointers.workspace, pointers.workspace_bytes,
                 &operands->workspace);
}

void Execute(const Problem& problem, int algorithm, double alpha, double beta,
             const Operands& operands) {
  PayFirstTouch(problem.shape.operation, algorithm, operands.x, operands.y);
  WorkspaceGuard guard(operands.workspace, operands.workspace_needed, operands.workspace_offered);
  if (!Run(problem.shape, algorithm, alpha, operands.x, operands.w, operands.y, beta,
           operands.workspace)) {
    ReportDeviceFault("an engine failed while it ran");
  }
  if (!guard.RestoreBehind()) ReportDeviceFault("an engine wrote past its workspace");
}

}  // namespace hostgpu
