// Which algorithms serve a problem, and how fast: by a model, or measured.
#pragma once

#include <vector>

#include "shim/host/cudnn/execution.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/cudnn/problem.h"

namespace hostgpu {

struct RankedAlgorithm {
  int algorithm;
  cudnnStatus_t status;  // why it cannot run; SUCCESS where it can
  float time_ms;         // -1 where it was not measured
  size_t memory;         // what the WorkspaceSize query answers
  bool deterministic;
};

// Every algorithm of the operation, those that serve the problem first: blocked layouts bought with
// workspace before the one that needs none. Nothing runs.
std::vector<RankedAlgorithm> RankByModel(const Problem& problem);

// Every algorithm, run on the handle's stream into the caller's buffers and fastest first. Those
// that need more than the workspace passed (ALLOC_FAILED), or better aligned pointers
// (NOT_SUPPORTED), follow. Returns early, with the status, on a pointer that would fault.
// Synchronous.
cudnnStatus_t RankByMeasuring(cudnnHandle_t handle, const Problem& problem,
                              const DevicePointers& pointers, std::vector<RankedAlgorithm>* ranked);

}  // namespace hostgpu
