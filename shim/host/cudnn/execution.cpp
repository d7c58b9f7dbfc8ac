#include "shim/host/cudnn/execution.h"

#include "shim/host/cudnn/device_memory.h"
#include "shim/host/cudnn/refusal.h"
#include "shim/host/cudnn/workspace_guard.h"

namespace hostgpu {

size_t RequiredAlignment(const Problem& problem, int algorithm) {
  return algorithm == 0 ? problem.element_bytes : 16;
}

cudnnStatus_t Check(const Problem& problem, int algorithm, const DevicePointers& pointers,
                    Operands* operands) {
  HOSTGPU_REFUSE_IF(pointers.x == nullptr || pointers.w == nullptr || pointers.y == nullptr,
                    CUDNN_STATUS_BAD_PARAM);
  size_t needed = 0;
  if (cudnnStatus_t status = RequiredWorkspace(problem, algorithm, &needed)) return status;
  HOSTGPU_REFUSE_IF(
      needed > 0 && (pointers.workspace == nullptr || pointers.workspace_bytes < needed),
      CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);

  const size_t alignment = RequiredAlignment(problem, algorithm);
  operands->x = Resolve("the image (x)", pointers.x, problem.bytes.x, alignment);
  operands->w = Resolve("the filter (w)", pointers.w, problem.bytes.w, alignment);
  operands->y = Resolve("the output (y)", pointers.y, problem.bytes.y, alignment);
  operands->workspace = nullptr;
  operands->workspace_needed = needed;
  operands->workspace_offered = 0;
  if (needed > 0) {
    operands->workspace =
        Resolve("the workspace", pointers.workspace, pointers.workspace_bytes, alignment);
    operands->workspace_offered = pointers.workspace_bytes;
  }
  HOSTGPU_REFUSE_IF(DeviceFaulted(), CUDNN_STATUS_EXECUTION_FAILED_CUDART);
  return CUDNN_STATUS_SUCCESS;
}

void Execute(const Problem& problem, int algorithm, double alpha, double beta,
             const Operands& operands) {
  WorkspaceGuard guard(operands.workspace, operands.workspace_needed, operands.workspace_offered);
  if (!Run(problem.shape, algorithm, alpha, operands.x, operands.w, operands.y, beta,
           operands.workspace)) {
    ReportDeviceFault("an engine failed while it ran");
  }
  if (!guard.RestoreBehind()) ReportDeviceFault("an engine wrote past its workspace");
}

}  // namespace hostgpu
