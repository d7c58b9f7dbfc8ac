// Sends the solution of a solve to ranks that had no part in it.
#pragma once

#include "base/status.h"
#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/solver.h"

namespace ucudnn::multigrid {

Status SendSolution(Peers& peers, int to, const Solution& solution);
Result<Solution> ReceiveSolution(Peers& peers, int from);

}  // namespace ucudnn::multigrid
