// Ranks the algorithms that serve a problem by speed, modelled or measured.
#pragma once

#include <vector>

#include "shim/host/cudnn/execution.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/cudnn/problem.h"

namespace hostgpu {

struct RankedAlgorithm {
  int algorithm;
  cudnnStatus_t status;  // why it cannot run; SUCCESS if it can
  float time_ms;         // -1 if it was not measured
  size_t memory;         // the answer of the WorkspaceSize query
  bool deterministic;
};

// Ranks every algorithm of the operation. Those that serve the problem come first: blocked layouts,
// which need workspace, before the one that needs none. Nothing runs.
std::vector<RankedAlgorithm> RankByModel(const Problem& problem);

// Every algorithm, run on the handle's stream into the caller's buffers, the fastest first. Those
// that need more than the given workspace (ALLOC_FAILED), or better aligned pointers
// (NOT_SUPPORTED), follow. Returns early, with the status, for a pointer that would fault.
// Synchronous.
cudnnStatus_t RankByMeasuring(cudnnHandle_t handle, const Problem& problem,
                              const DevicePointers& pointers, std::vector<RankedAlgorithm>* ranked);

}  // namespace hostgpu
