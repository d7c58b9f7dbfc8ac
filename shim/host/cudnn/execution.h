// Runs one algorithm on checked operands.
#pragma once

#include "shim/host/cudnn/api.h"
#include "shim/host/cudnn/problem.h"

namespace hostgpu {

// Host addresses of a call's operands, whose sizes were checked for the problem.
struct Operands {
  void* x;
  void* w;
  void* y;
  void* workspace;
  size_t workspace_needed;
  size_t workspace_offered;
};

// Device pointers as passed by the application.
struct DevicePointers {
  const void* x;
  const void* w;
  const void* y;
  void* workspace;
  size_t workspace_bytes;
  // Returns the workspace that the call uses: null if it needs none.
  const void* UsedWorkspace(const Operands& operands) const {
    return operands.workspace_needed > 0 ? workspace : nullptr;
  }
};

// Algorithm 0 accepts any pointer aligned to its elements, as cuDNN's implicit GEMM does; the
// others use 16-byte accesses.
size_t RequiredAlignment(const Problem& problem, int algorithm);

// Checks everything that can be refused before a call is enqueued. A workspace one byte too small,
// or none, is BAD_PARAM_SIZE_INSUFFICIENT (a specific form of BAD_PARAM). For pointers that would
// fault on a device see Resolve; if that loses the device, all later calls fail, too.
cudnnStatus_t Check(cudnnHandle_t handle, const Problem& problem, int algorithm,
                    const DevicePointers& pointers, Operands* operands);

// Runs the algorithm on the stream's worker. A failure is reported as a device fault.
void Execute(const Problem& problem, int algorithm, double alpha, double beta,
             const Operands& operands);

}  // namespace hostgpu
