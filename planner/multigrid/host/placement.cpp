#include "planner/multigrid/host/placement.h"

#include <algorithm>

#include "base/text.h"

namespace ucudnn::multigrid {
namespace {

using planner::NodeId;

Result<SectionPlace> PlaceStage(const ResidualChain& chain, size_t section,
                                const PlacementSetting& setting, int all_ranks, bool is_longest) {
  const Stage& stage = std::get<Stage>(chain.sections[section]);
  const int steps = static_cast<int>(stage.steps.size());
  SectionPlace place;
  Result<Hierarchy> made = Hierarchy::Make(steps, setting.coarsening, setting.levels);
  if (!made.ok() && is_longest && chain.Stages().size() == 1) return made.status();
  if (!made.ok() && is_longest) {
    return Status::Error("no stage of " + Quoted(chain.graph.name) +
                         " has layers enough for two levels; a smaller coarsening or --levels 1 is "
                         "expected");
  }
  if (!made.ok()) made = Hierarchy::Make(steps, setting.coarsening, 1);
  UCUDNN_ASSIGN_OR_RETURN(place.hierarchy, std::move(made));
  std::optional<int> distributed = setting.distributed;
  if (distributed) distributed = std::min(*distributed, place.hierarchy.levels());
  const int most = MostRanks(place.hierarchy, distributed.value_or(1));
  const int ranks = is_longest ? all_ranks : std::min(all_ranks, most);
  if (ranks == 1 && !distributed) distributed = place.hierarchy.levels();
  UCUDNN_ASSIGN_OR_RETURN(place.partition,
                          MakePartition(place.hierarchy, ranks,
                                        setting.step_costs.empty() ? std::vector<double>(steps, 1.0)
                                                                   : setting.step_costs[section],
                                        setting.messages, distributed));
  if (setting.method == Method::kPartitioned) {
    UCUDNN_ASSIGN_OR_RETURN(place.hierarchy, Hierarchy::Make(steps, setting.coarsening, 1));
    place.partition.distributed = 1;
  }
  return place;
}

}  // namespace

Result<Placement> PlaceNetwork(const ResidualChain& chain, const PlacementSetting& setting,
                               int ranks) {
  Placement placement;
  placement.owners.assign(chain.graph.nodes.size(), 0);
  placement.homes.assign(chain.graph.nodes.size(), 0);
  const Stage* const longest = chain.LongestStage();
  int here = 0;
  for (size_t at = 0; at < chain.sections.size(); ++at) {
    const auto* stage = std::get_if<Stage>(&chain.sections[at]);
    if (stage == nullptr) {
      placement.sections.push_back({.rank = here, .partition = {}, .hierarchy = {}});
      for (const NodeId id : std::get<SerialSection>(chain.sections[at]).nodes) {
        placement.owners[id] = placement.homes[id] = here;
      }
      continue;
    }
    UCUDNN_ASSIGN_OR_RETURN(const SectionPlace place,
                            PlaceStage(chain, at, setting, ranks, stage == longest));
    const Partition& partition = place.partition;
    for (int p = 0; p < partition.ranks(); ++p) {
      for (int step = partition.begins[p]; step < partition.begins[p + 1]; ++step) {
        for (const NodeId id : stage->steps[step].transformation) placement.owners[id] = p;
        placement.owners[stage->steps[step].sum] = p;
      }
    }
    here = partition.ranks() - 1;
    placement.homes[stage->steps.back().sum] = here;
    placement.sections.push_back(place);
  }
  return placement;
}

}  // namespace ucudnn::multigrid
