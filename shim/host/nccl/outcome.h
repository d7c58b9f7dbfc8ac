// The result of a step: NCCL's status, and the message for ncclGetLastError.
#pragma once

#include <string>
#include <utility>

#include "shim/host/nccl/api.h"

namespace hostgpu::nccl {

struct [[nodiscard]] Outcome {
  ncclResult_t result = ncclSuccess;
  std::string reason;

  Outcome() = default;
  Outcome(ncclResult_t result, std::string reason) : result(result), reason(std::move(reason)) {}
  bool ok() const { return result == ncclSuccess; }
};

// Stores an outcome as the process's last error, unless it is success or ncclInProgress; returns
// its status.
ncclResult_t Recorded(const Outcome& outcome);

}  // namespace hostgpu::nccl
