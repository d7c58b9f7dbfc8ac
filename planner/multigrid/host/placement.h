// Which rank has which part of a network. Plain values; pure functions.
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
  int levels = 0;  // as Hierarchy::Make has it; 1 is serial propagation
  Method method = Method::kMultigrid;
  std::optional<int> distributed;  // as MakePartition has it
  // What each step of each stage costs, by section; empty: as much as its multiplications.
  std::vector<std::vector<double>> step_costs;
  MessageCosts messages;
};

// One section of the chain.
struct SectionPlace {
  int rank = 0;  // of a serial section
  // Of a stage: who has its layers, and the levels in which it is solved.
  Partition partition;
  Hierarchy hierarchy;
};

struct Placement {
  std::vector<SectionPlace> sections;
  // By node: the rank that has its parameters and computes it.
  std::vector<int> owners;
  // By node: the rank that has its value behind the section that gives it; of stages the input and
  // the last sum alone.
  std::vector<int> homes;
};

// Stages are cut over all `ranks`, or as many as they have blocks for, from the first on; one that
// coarsening leaves too few layers is solved serially, by as many ranks as it has layers. What lies
// between stages is where their output is. An error for more ranks than the longest stage has
// blocks, or where no stage has layers enough for two levels.
Result<Placement> PlaceNetwork(const ResidualChain& chain, const PlacementSetting& setting,
                               int ranks);

}  // namespace ucudnn::multigrid
