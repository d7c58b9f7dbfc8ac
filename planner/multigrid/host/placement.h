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
  kPartitioned  // layers are placed as with kMultigrid, and computed one after the other
};

struct PlacementSetting {
  std::vector<int> coarsening = {4};
  int levels = 0;  // as in Hierarchy::Make; 1 means serial propagation
  Method method = Method::kMultigrid;
  std::optional<int> distributed;  // as in MakePartition
  // By section: the cost of each step of a stage. If empty, all steps cost the same.
  std::vector<std::vector<double>> step_costs;
  MessageCosts messages;
};

// The place of one section of the chain.
struct SectionPlace {
  int rank = 0;  // the rank of a serial section
  // For a stage: the ranks that have its layers, and the levels with which it is solved.
  Partition partition;
  Hierarchy hierarchy;
};

struct Placement {
  std::vector<SectionPlace> sections;
  // By node: the rank that has the node's parameters and computes the node.
  std::vector<int> owners;
  // By node: the rank that has the node's value after the section that computes it. Inside a stage,
  // only the last sum has a home.
  std::vector<int> homes;
};

// Places a network. Each stage is cut over all `ranks` ranks or, if it has fewer blocks, over fewer
// ranks from rank 0 on. A stage with too few layers for two levels is solved serially, on at most
// as many ranks as it has layers. A section between stages is on the rank that has the output of
// the preceding stage. Fails if there are more ranks than the longest stage has blocks, or if no
// stage has enough layers for two levels.
Result<Placement> PlaceNetwork(const ResidualChain& chain, const PlacementSetting& setting,
                               int ranks);

}  // namespace ucudnn::multigrid
