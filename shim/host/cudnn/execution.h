// Runs one algorithm on checked operands.
#pragma once

#include "shim/host/cudnn/api.h"
#include "shim/host/cudnn/problem.h"

namespace hostgpu {

// Host addresses of a call's operands, whose sizes Check has checked for the problem.
struct Operands {
  void* x;
  void* w;
  void* y;
  void* workspace;
  size_t workspace_needed;
  size_t workspace_offered;
};

// The device pointers that the application passed.
struct DevicePointers {
  const void* x;
  const void* w;
  const void* y;
  void* workspace;
  size_t workspace_bytes;
  // Returns the workspace that the call uses; null if the call needs none.
  const void* UsedWorkspace(const Operands& operands) const {
    return operands.workspace_needed > 0 ? workspace : nullptr;
  }
};

// Returns the alignment that pointers need. For algorithm 0 it is the size of an element, as for
// cuDNN's implicit GEMM; the other algorithms access 16 bytes at a time.
size_t RequiredAlignment(const Problem& problem, int algorithm);

// Checks everything for which a call can be refused before it is enqueued. A workspace that is
// missing or too small is BAD_PARAM_SIZE_INSUFFICIENT (a specific form of BAD_PARAM). Resolve
// handles pointers that would fault on a device; after a reported fault all later calls fail.
cudnnStatus_t Check(cudnnHandle_t handle, const Problem& problem, int algorithm,
                    const DevicePointers& pointers, Operands* operands);

// Runs the algorithm; the stream's worker calls this. A failure is reported as a device fault.
void Execute(const Problem& problem, int algorithm, double alpha, double beta,
             const Operands& operands);

}  // namespace hostgpu
