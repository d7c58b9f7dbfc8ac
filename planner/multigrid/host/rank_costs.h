// Measures the costs of layers and messages for the ranks of a job, so that the layers can be
// distributed.
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
  // By section and step of a stage: the ms of the step's forward pass and, in training, also of its
  // adjoint and gradient. Empty for serial sections.
  std::vector<std::vector<double>> steps;
  MessageCosts messages;  // in ms
};

// Functions that measure in place of the host.
struct RankMeasures {
  // Returns, by kind of `network` and by pass, the ms of one layer. Only `passes` are measured.
  std::function<Result<std::vector<std::array<double, kLayerPasses>>>(
      const NetworkLayers& network, std::span<const LayerPass> passes)>
      layers;
  // Returns the costs of messages, given the count of numbers in the largest state. All ranks call
  // it; the result of rank 0 counts.
  std::function<Result<MessageCosts>(int64_t state_numbers)> messages;
};

// Measures one step of each kind on rank 0 and, if there are several ranks, messages between ranks
// 0 and 1, on the host or by `measures`. All ranks get the same result. Takes a fraction of a
// second for each kind.
Result<RankCosts> MeasureRankCosts(const ResidualChain& chain, int batch, bool trains, Peers& peers,
                                   const RankMeasures& measures = {});

}  // namespace ucudnn::multigrid
