// Ranks an operation's algorithms by modelled or measured speed.
#pragma once

#include <vector>

#include "shim/host/cudnn/execution.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/cudnn/problem.h"

namespace hostgpu {

struct RankedAlgorithm {
  int algorithm;
  cudnnStatus_t status;  // SUCCESS, or the reason why the algorithm cannot run
  float time_ms;         // -1 if it was not measured
  size_t memory;         // the workspace that the algorithm needs, in bytes
  bool deterministic;
};

// Ranks all algorithms of the operation without running them. Algorithms that support the problem
// come first. Among them, algorithms that need workspace precede algorithms that need none.
std::vector<RankedAlgorithm> RankByModel(const Problem& problem);

// Runs each algorithm on the handle's stream with the caller's buffers, and ranks them by time.
// Algorithms that need more than the given workspace (ALLOC_FAILED) or better aligned pointers
// (NOT_SUPPORTED) follow at the end. Returns the error status for a pointer that would fault, and
// EXECUTION_FAILED_CUDART if the stream captures. Synchronous.
cudnnStatus_t RankByMeasuring(cudnnHandle_t handle, const Problem& problem,
                              const DevicePointers& pointers, std::vector<RankedAlgorithm>* ranked);

}  // namespace hostgpu
