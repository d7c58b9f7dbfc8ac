#include "planner/multigrid/distributed/partition.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "planner/multigrid/analysis/balanced_runs.h"

namespace ucudnn::multigrid {
namespace {

// Returns the unit of the cuts: the number of each rank's first layer is a multiple of this unit.
int UnitOf(const Hierarchy& hierarchy, int distributed) {
  return hierarchy.level(std::min(distributed, hierarchy.coarsest())).span;
}

std::vector<int> BalancedLayers(const Hierarchy& hierarchy, int ranks, int distributed,
                                std::span<const double> costs) {
  const int unit = UnitOf(hierarchy, distributed);
  // Layers after the last whole unit belong to the last unit.
  std::vector<double> sums(MostRanks(hierarchy, distributed), 0.0);
  for (size_t layer = 0; layer < costs.size(); ++layer) {
    sums[std::min(layer / unit, sums.size() - 1)] += costs[layer];
  }
  std::vector<int> begins = BalancedRuns(sums, ranks);
  for (int& begin : begins) begin *= unit;
  begins.back() = static_cast<int>(costs.size());
  return begins;
}

// Estimates the cost of a V-cycle with FCF-relaxation. On each level but the coarsest it counts all
// steps three times: for F- and C-relaxation, for the second F-relaxation and Advance, and for the
// next level's right sides and the F-relaxation on the way up. The coarsest level is solved once.
double CycleCost(const Hierarchy& hierarchy, int ranks, int distributed,
                 std::span<const double> costs, const MessageCosts& messages) {
  const std::vector<int> begins = BalancedLayers(hierarchy, ranks, distributed, costs);
  double dearest = 0;
  for (int p = 0; p < ranks; ++p) {
    dearest = std::max(
        dearest, std::accumulate(costs.begin() + begins[p], costs.begin() + begins[p + 1], 0.0));
  }
  const double all = std::accumulate(costs.begin(), costs.end(), 0.0);
  double cost = 0;
  for (int level = 0; level < hierarchy.levels(); ++level) {
    const Level& shape = hierarchy.level(level);
    const bool is_coarsest = level == hierarchy.coarsest();
    const bool is_here = level < distributed;
    // A coarse step costs as much as one layer, and replaces `span` layers.
    const double layers = (is_here && !is_coarsest ? dearest : all) / shape.span;
    cost += is_coarsest ? layers : 3 * layers;
    if (is_here) cost += (is_coarsest ? ranks - 1 : 1) * (messages.message + messages.state);
  }
  if (distributed < hierarchy.levels()) {
    const int states = hierarchy.level(distributed).steps;
    cost += 2 * messages.message + 3 * states * messages.state;
  }
  return cost;
}

}  // namespace

int MostRanks(const Hierarchy& hierarchy, int distributed) {
  return hierarchy.level(std::min(distributed, hierarchy.coarsest())).steps;
}

Result<Partition> MakePartition(const Hierarchy& hierarchy, int ranks,
                                std::span<const double> costs, const MessageCosts& messages,
                                std::optional<int> distributed) {
  const int first = distributed.value_or(1);
  const int last = distributed.value_or(hierarchy.levels());
  if (first < 1 || last > hierarchy.levels()) {
    return Status::Error(std::to_string(first) + " distributed levels; 1 to " +
                         std::to_string(hierarchy.levels()) + " are expected");
  }
  const int most = MostRanks(hierarchy, first);
  if (ranks < 1 || ranks > most) {
    return Status::Error(std::to_string(ranks) + " devices for " + std::to_string(most) +
                         (most == 1 ? " block" : " blocks") + " of layers; at most as many " +
                         "devices, or a smaller coarsening, are expected");
  }
  Partition best;
  double least = 0;
  for (int tried = first; tried <= last && ranks <= MostRanks(hierarchy, tried); ++tried) {
    const double cost = CycleCost(hierarchy, ranks, tried, costs, messages);
    // Among equal costs, prefers more distributed levels, because weights and states then stay with
    // their layers.
    if (tried > first && cost > least) continue;
    least = cost;
    best.distributed = tried;
  }
  best.begins = BalancedLayers(hierarchy, ranks, best.distributed, costs);
  return best;
}

}  // namespace ucudnn::multigrid
