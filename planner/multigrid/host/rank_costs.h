// What layers and messages cost the ranks of a job, measured: by what layers are shared out.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/distributed/partition.h"
#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

struct RankCosts {
  // ms of each section's steps, of the layers' pass forward and, in training, of the adjoint and
  // the gradient as well; empty for serial sections.
  std::vector<std::vector<double>> steps;
  MessageCosts messages;  // ms
};

// Measures RankCosts::steps.
using MeasureSteps =
    std::function<Result<std::vector<std::vector<double>>>(int batch, bool trains)>;

// Rank 0 times one step of each kind, on the host or by `measure_steps`, and, with rank 1,
// messages; all ranks get the same. Takes a fraction of a second for each kind.
Result<RankCosts> MeasureRankCosts(const ResidualChain& chain, int batch, bool trains, Peers& peers,
                                   const MeasureSteps& measure_steps = nullptr);

}  // namespace ucudnn::multigrid
