// Decides which rank has which layers of a stage, and which levels of the stage's solves all ranks
// share. Plain values; pure functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/hierarchy.h"

namespace ucudnn::multigrid {

struct Partition {
  // Rank p has layers begins[p] to begins[p + 1] - 1.
  std::vector<int> begins = {0};
  // The steps of levels 0 to distributed - 1 are on the ranks of their layers; no block of these
  // levels is on two ranks. All other levels are on rank 0.
  int distributed = 1;

  int ranks() const { return static_cast<int>(begins.size()) - 1; }
  // Returns whether there are levels that are on rank 0 alone.
  bool Gathers(const Hierarchy& hierarchy) const { return distributed < hierarchy.levels(); }
};

// Returns the largest number of ranks that can have layers if `distributed` levels are distributed.
// REQUIRES: `distributed` is at least 1, and at most the number of levels.
int MostRanks(const Hierarchy& hierarchy, int distributed);

// The costs of a cycle's messages, in the unit of the layers' costs.
struct MessageCosts {
  double message = 0;  // cost of a message of any length
  double state = 0;    // additional cost of each state in a message
};

// Cuts the layers into `ranks` runs of about equal cost, for the ranks from 0 on. costs[i] is the
// cost of layer i. If `distributed` is none, chooses the number of distributed levels for which a
// cycle with FCF-relaxation is cheapest. Fails if there are more ranks than blocks, or if
// `distributed` is out of range. The error is one line, which calls a rank a device.
Result<Partition> MakePartition(const Hierarchy& hierarchy, int ranks,
                                std::span<const double> costs, const MessageCosts& messages,
                                std::optional<int> distributed);

}  // namespace ucudnn::multigrid
