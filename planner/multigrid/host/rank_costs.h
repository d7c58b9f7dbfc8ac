// What layers and messages cost the ranks of a job, measured: by what layers are shared out.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/analysis/layer_kernels.h"
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

// Who measures instead of the host.
struct RankMeasures {
  // ms of one layer of each kind, in these passes.
  std::function<Result<std::vector<std::array<double, kLayerPasses>>>(
      const NetworkLayers& network, std::span<const LayerPass> passes)>
      layers;
  // Called by all ranks, with the numbers of the largest state; rank 0's result counts.
  std::function<Result<MessageCosts>(int64_t state_numbers)> messages;
};

// Rank 0 times one step of each kind and, with rank 1, messages: on the host, or by `measures`. All
// ranks get the same. Takes a fraction of a second for each kind.
Result<RankCosts> MeasureRankCosts(const ResidualChain& chain, int batch, bool trains, Peers& peers,
                                   const RankMeasures& measures = {});

}  // namespace ucudnn::multigrid
