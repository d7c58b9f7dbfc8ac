// Solvers of stages whose layers run on threads of the host, in double precision.
#pragma once

#include <memory>

#include "base/status.h"
#include "planner/multigrid/distributed/stage_solver.h"
#include "planner/multigrid/lanes.h"

namespace ucudnn::multigrid {

class HostSolvers : public StageSolvers {
 public:
  // Makes `threads` lanes. Fails if the system cannot start more threads.
  static Result<std::unique_ptr<HostSolvers>> Make(int threads);

  Result<std::unique_ptr<StageSolver>> Make(const StageToSolve& stage) override;

 private:
  explicit HostSolvers(Lanes lanes) : lanes_(std::move(lanes)) {}

  Lanes lanes_;
};

}  // namespace ucudnn::multigrid
