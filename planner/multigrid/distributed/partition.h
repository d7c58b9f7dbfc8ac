// Decides which rank has which layers of a stage, and which levels of its solves are on all ranks.
// Plain values; pure functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/hierarchy.h"

namespace ucudnn::multigrid {

struct Partition {
  int first_rank = 0;
  // Rank first_rank + p has layers begins[p] to begins[p + 1] - 1.
  std::vector<int> begins = {0};
  // The steps of levels 0 to distributed - 1 are on the ranks of their layers, and no block of
  // these levels is on two ranks. The other levels are on the first rank.
  int distributed = 1;

  RankRange ranks() const { return {first_rank, static_cast<int>(begins.size()) - 1}; }
  int last_rank() const { return first_rank + ranks().count - 1; }
  // Returns whether the first rank has levels for all ranks.
  bool Gathers(const Hierarchy& hierarchy) const { return distributed < hierarchy.levels(); }
};

// Returns how many ranks can have layers if `distributed` levels are distributed, which may be 1 to
// all.
int MostRanks(const Hierarchy& hierarchy, int distributed);

// The costs of a cycle's messages, in the unit of the layers' costs.
struct MessageCosts {
  double message = 0;  // of a message of any length
  double state = 0;    // of each state in a message
};

// Cuts the layers into `ranks` runs of about the same cost, for the ranks from 0 on. `costs` has
// the cost of each layer. If `distributed` is not given, as many levels are distributed as make a
// cycle with FCF-relaxation cheapest. Fails if there are more ranks than blocks, in one line that
// calls a rank a device, or if `distributed` is out of range.
Result<Partition> MakePartition(const Hierarchy& hierarchy, int ranks,
                                std::span<const double> costs, const MessageCosts& messages,
                                std::optional<int> distributed);

}  // namespace ucudnn::multigrid
