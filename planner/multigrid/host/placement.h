// Decides which rank has which part of a network. Plain values; pure functions.
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/distributed/partition.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

enum class Method {
  kMultigrid,
  kPartitioned  // the same layers on the same ranks, one after the other
};

struct PlacementSetting {
  std::vector<int> coarsening = {4};
  int levels = 0;  // the `levels` of Hierarchy::Make; 1 is serial propagation
  Method method = Method::kMultigrid;
  std::optional<int> distributed;  // the `distributed` of MakePartition
  // The cost of each step of each stage, by section. Empty: the number of its multiplications.
  std::vector<std::vector<double>> step_costs;
  MessageCosts messages;
};

// The place of one section of the chain.
struct SectionPlace {
  int rank = 0;  // of a serial section
  // For a stage: the ranks that have its layers, and the levels in which it is solved.
  Partition partition;
  Hierarchy hierarchy;
};

struct Placement {
  std::vector<SectionPlace> sections;
  // By node: the rank that has the node's parameters and computes it.
  std::vector<int> owners;
  // By node: the rank that has the node's value after the section that computes it. Inside of a
  // stage, only the last sum has a home.
  std::vector<int> homes;
};

// Places a network. Stages are cut over all `ranks`, or over as many as they have blocks for, from
// rank 0 on. A stage that coarsening leaves too few layers for is solved serially, on at most as
// many ranks as it has layers. A section between stages is on the rank that has the output of the
// stage before. Fails if there are more ranks than the longest stage has blocks, or if no stage has
// enough layers for two levels.
Result<Placement> PlaceNetwork(const ResidualChain& chain, const PlacementSetting& setting,
                               int ranks);

}  // namespace ucudnn::multigrid
