#include "planner/report/layout_json.h"

#include <algorithm>

#include "base/ordered_json.h"
#include "planner/layout/device_boxes.h"
#include "planner/layout/what_if.h"

namespace ucudnn::planner {
namespace {

void AddDegrees(Json& json, const ParallelConfiguration& configuration) {
  json["n"] = configuration.degrees.n;
  json["c"] = configuration.degrees.c;
  json["h"] = configuration.degrees.h;
  json["w"] = configuration.degrees.w;
  if (configuration.degrees.r != 1) json["r"] = configuration.degrees.r;
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
  json["best_total_ms"] = OrNull(row.best_total_ms);
  json["measured"] = row.measured;
  return json;
}

Json IntervalJson(const Interval& interval) { return {interval.begin, interval.end}; }
Json HaloJson(const Halo& halo) { return {halo.before, halo.after}; }

void AddBox(Json& json, const Box& box, bool depth) {
  constexpr const char* kAxes[] = {"n", "c", "d", "h", "w"};
  for (size_t axis = 0; axis < kTensorAxes; ++axis) {
    if (axis != kAxisD || depth) json[kAxes[axis]] = IntervalJson(box[axis]);
  }
}

Json OutputBoxesJson(const PlannedLayer& layer, const ParallelConfiguration& configuration) {
  return JsonList(OutputBoxes(layer, configuration), [&](const DeviceBox& one) {
    Json json = {{"device", one.device}};
    AddBox(json, one.box, layer.output.spatial_rank == 3);
    return json;
  });
}

Json TransfersJson(const std::vector<Transfer>& transfers, bool depth) {
  return JsonList(transfers, [&](const Transfer& one) {
    Json json = {{"from", one.from}, {"to", one.to}};
    AddBox(json, one.box, depth);
    json["bytes"] = Elements(one.box) * kElementBytes;
    return json;
  });
}

void AddReduction(Json& json, const PlannedLayer& layer,
                  const ParallelConfiguration& configuration) {
  const bool depth = layer.output.spatial_rank == 3;
  json["partial"] = JsonList(PartialBoxes(layer, configuration), [&](const PartialBox& one) {
    Json partial = {{"device", one.device}};
    AddBox(partial, one.box, depth);
    partial["input_channels"] = IntervalJson(one.input_channels);
    return partial;
  });
  json["reduction"] = TransfersJson(ReductionTransfers(layer, configuration), depth);
}

Json NeedsJson(const PlannedLayer& layer, int input, const ParallelConfiguration& configuration) {
  const Shape& tensor = layer.inputs[static_cast<size_t>(input)].shape;
  return JsonList(NeededBoxes(layer, input, configuration), [&](const NeededBox& one) {
    Json json = {{"device", one.device}};
    AddBox(json, one.box, tensor.spatial_rank == 3);
    if (one.h != Halo()) json["halo_h"] = HaloJson(one.h);
    if (one.w != Halo()) json["halo_w"] = HaloJson(one.w);
    return json;
  });
}

Json InputJson(const PlanningProblem& problem, const Assignment& assignment, int layer, int input) {
  const PlannedLayer& consumer = problem.graph.layers[static_cast<size_t>(layer)];
  const LayerInput& source = consumer.inputs[static_cast<size_t>(input)];
  const ParallelConfiguration& to = ConfigurationOf(problem, assignment, layer);
  const bool data = source.producer == kData;
  Json json;
  json["from"] =
      data ? Json() : Json(problem.graph.layers[static_cast<size_t>(source.producer)].name);
  json["tensor"] = Describe(source.shape);
  json["needs"] = NeedsJson(consumer, input, to);
  json["transfers"] = Json::array();
  if (data) return json;
  const ParallelConfiguration& from = ConfigurationOf(problem, assignment, source.producer);
  json["transfers"] =
      TransfersJson(Transfers(consumer, input, from, to), source.shape.spatial_rank == 3);
  return json;
}

void AddBoxes(Json& json, const PlanningProblem& problem, const Assignment& assignment, int at) {
  const PlannedLayer& layer = problem.graph.layers[static_cast<size_t>(at)];
  const ParallelConfiguration& configuration = ConfigurationOf(problem, assignment, at);
  json["boxes"] = OutputBoxesJson(layer, configuration);
  if (configuration.degrees.r != 1) AddReduction(json, layer, configuration);
  json["inputs"] = Json::array();
  for (int input = 0; input < static_cast<int>(layer.inputs.size()); ++input) {
    json["inputs"].push_back(InputJson(problem, assignment, at, input));
  }
  json["all_reduce"] =
      JsonList(ReplicaGroups(layer, configuration), [&](const ReplicaGroup& group) {
        Json entry = {{"devices", group.devices}, {"channels", IntervalJson(group.channels)}};
        if (configuration.degrees.r != 1) {
          entry["input_channels"] = IntervalJson(group.input_channels);
        }
        return entry;
      });
}

}  // namespace

std::string FormatLayout(const PlanningProblem& problem, const LayoutSetting& setting,
                         const std::vector<ParallelLayout>& layouts, const ParallelLayout& chosen) {
  const ParallelLayout& deepa = *std::find_if(
      layouts.begin(), layouts.end(),
      [](const ParallelLayout& layout) { return layout.strategy == Strategy::kDeePa; });
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
  if (!setting.measured.empty()) json["measured"] = setting.measured;
  if (setting.memory_limit_bytes) json["memory_limit_bytes"] = *setting.memory_limit_bytes;
  json["total_ms"] = total;
  json["optimal"] = chosen.optimal;
  json["gap"] = chosen.optimal || total <= 0 ? 0 : 1 - deepa.lower_bound_ms / total;
  json["strategies"] = JsonList(layouts, [](const ParallelLayout& layout) {
    Json entry = {{"name", StrategyName(layout.strategy)}};
    AddCost(entry, layout.cost);
    return entry;
  });
  json["layers"] = Json::array();
  for (size_t at = 0; at < problem.graph.layers.size(); ++at) {
    const PlannedLayer& layer = problem.graph.layers[at];
    Json entry = {{"name", layer.name}, {"output", Describe(layer.output)}};
    AddDegrees(entry["config"], ConfigurationOf(problem, chosen.assignment, static_cast<int>(at)));
    entry["followers"] = layer.followers;
    entry["what_if"] =
        JsonList(WhatIfTable(problem, chosen.assignment, deepa.best_total_ms, static_cast<int>(at)),
                 WhatIfJson);
    if (setting.boxes) AddBoxes(entry, problem, chosen.assignment, static_cast<int>(at));
    json["layers"].push_back(std::move(entry));
  }
  return JsonText(json);
}

}  // namespace ucudnn::planner
