#include "planner/report/layout_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/layout/what_if.h"

namespace ucudnn::planner {
namespace {

using Json = nlohmann::ordered_json;

void AddDegrees(Json& json, const ParallelConfiguration& configuration) {
  json["n"] = configuration.degrees.n;
  json["c"] = configuration.degrees.c;
  json["h"] = configuration.degrees.h;
  json["w"] = configuration.degrees.w;
  if (configuration.first_device != 0) json["first_device"] = configuration.first_device;
}

void AddCost(Json& json, const LayoutCost& cost) {
  json["total_ms"] = cost.total_ms;
  json["transfer_ms"] = cost.transfer_ms;
  json["compute_ms"] = cost.compute_ms;
  json["update_ms"] = cost.update_ms;
  json["transfer_bytes"] = cost.transfer_bytes;
  json["update_bytes"] = cost.update_bytes;
  json["memory_bytes"] = cost.memory_bytes;
}

Json WhatIfJson(const WhatIf& row) {
  Json json;
  AddDegrees(json, row.configuration);
  json["transfer_ms"] = row.transfer_ms;
  json["compute_ms"] = row.compute_ms;
  json["update_ms"] = row.update_ms;
  json["total_ms"] = row.total_ms;
  json["best_total_ms"] = row.best_total_ms ? Json(*row.best_total_ms) : Json();
  json["measured"] = row.measured;
  return json;
}

}  // namespace

std::string FormatLayout(const PlanningProblem& problem, const LayoutSetting& setting,
                         const std::vector<Layout>& layouts, const Layout& chosen) {
  const Layout& deepa = *std::find_if(layouts.begin(), layouts.end(), [](const Layout& layout) {
    return layout.strategy == Strategy::kDeePa;
  });
  const double total = chosen.cost.total_ms;
  Json json = {{"format", "ucudnn-layout"},
               {"version", 1},
               {"network", problem.graph.name},
               {"batch", problem.graph.batch},
               {"machine", setting.machine},
               {"devices", setting.devices},
               {"cost", setting.cost},
               {"update", setting.update},
               {"strategy", StrategyName(chosen.strategy)}};
  json["total_ms"] = total;
  json["optimal"] = chosen.optimal;
  json["gap"] = chosen.optimal || total <= 0 ? 0 : 1 - deepa.lower_bound_ms / total;
  json["strategies"] = Json::array();
  for (const Layout& layout : layouts) {
    Json entry = {{"name", StrategyName(layout.strategy)}};
    AddCost(entry, layout.cost);
    json["strategies"].push_back(std::move(entry));
  }
  json["layers"] = Json::array();
  for (size_t at = 0; at < problem.graph.layers.size(); ++at) {
    const PlannedLayer& layer = problem.graph.layers[at];
    Json entry = {{"name", layer.name}, {"output", Describe(layer.output)}};
    AddDegrees(entry["config"],
               problem.configurations[at][static_cast<size_t>(chosen.assignment[at])]);
    entry["followers"] = layer.followers;
    entry["what_if"] = Json::array();
    for (const WhatIf& row :
         WhatIfTable(problem, chosen.assignment, deepa.best_total_ms, static_cast<int>(at))) {
      entry["what_if"].push_back(WhatIfJson(row));
    }
    json["layers"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ucudnn::planner
