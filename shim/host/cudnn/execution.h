// Running one algorithm on checked operands.
#pragma once

#include "shim/host/cudnn/api.h"
#include "shim/host/cudnn/problem.h"

namespace hostgpu {

// Host addresses of a call's operands, checked against what the problem spans.
struct Operands {
  void* x;
  void* w;
  void* y;
  void* workspace;
  size_t workspace_needed;
  size_t workspace_offered;
};

// Device pointers as the application passed them.
struct DevicePointers {
  const void* x;
  const void* w;
  const void* y;
  void* workspace;
  size_t workspace_bytes;
  // What the call uses of the workspace: nothing where it needs none.
  const void* UsedWorkspace(const Operands& operands) const {
    return operands.workspace_needed > 0 ? workspace : nullptr;
  }
};

// Algorithm 0 takes any pointer aligned to its elements, as cuDNN's implicit GEMM does; the others
// use 16-byte accesses.
size_t RequiredAlignment(const Problem& problem, int algorithm);

// Everything about a call that can be refused before it is enqueued. A workspace one byte too
// small, or none, is BAD_PARAM_SIZE_INSUFFICIENT (a specific form of BAD_PARAM). Pointers that
// would fault on a device: see Resolve; where that loses the device, for all later calls, too.
cudnnStatus_t Check(cudnnHandle_t handle, const Problem& problem, int algorithm,
                    const DevicePointers& pointers, Operands* operands);

// On the stream's worker: runs the algorithm. A failure is reported as a device fault.
void Execute(const Problem& problem, int algorithm, double alpha, double beta,
             const Operands& operands);

}  // namespace hostgpu
