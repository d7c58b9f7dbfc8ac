// Which rank has which layers of a stage, and which levels of its solves are on all ranks.
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
  // Rank first_rank + p has the layers from begins[p] on, up to begins[p + 1].
  std::vector<int> begins = {0};
  // The levels 0..distributed - 1 are where their layers are; no block of theirs is on two ranks.
  // Others are on the first rank.
  int distributed = 1;

  RankRange ranks() const { return {first_rank, static_cast<int>(begins.size()) - 1}; }
  int last_rank() const { return first_rank + ranks().count - 1; }
  // Whether the first rank has levels for all.
  bool Gathers(const Hierarchy& hierarchy) const { return distributed < hierarchy.levels(); }
};

// How many ranks can have layers where so many levels are distributed, from 1 to all.
int MostRanks(const Hierarchy& hierarchy, int distributed);

// What a cycle costs besides its layers, in the unit of their costs.
struct MessageCosts {
  double message = 0;  // one, of whatever length
  double state = 0;    // and each state in it
};

// Cuts the layers into `ranks` runs of about the same cost, on the ranks from 0 on. `costs` are one
// for each layer. Without `distributed` so many levels are distributed as make a cycle of
// FCF-relaxation cheapest. An error for more ranks than blocks, in one line that calls a rank a
// device.
Result<Partition> MakePartition(const Hierarchy& hierarchy, int ranks,
                                std::span<const double> costs, const MessageCosts& messages,
                                std::optional<int> distributed);

}  // namespace ucudnn::multigrid
