#include "planner/schedule/schedule_json.h"

#include "base/ordered_json.h"
#include "planner/schedule/elements.h"

namespace ucudnn::planner {
namespace {

constexpr const char* kStatisticsNames[] = {"batch_normalization", "group_normalization",
                                            "classifier", "loss"};
constexpr const char* kStepNames[] = {"forward", "exchange", "wait", "statistics", "backward"};

Json RangeJson(const Interval& interval) { return {interval.begin, interval.end}; }

Json RangesJson(const std::vector<Interval>& intervals) { return JsonList(intervals, RangeJson); }

Json BoxesJson(const std::vector<DeviceBox>& boxes, bool depth) {
  constexpr const char* kAxes[] = {"n", "c", "d", "h", "w"};
  return JsonList(boxes, [&](const DeviceBox& one) {
    Json box = {{"device", one.device}};
    for (size_t axis = 0; axis < kTensorAxes; ++axis) {
      if (axis != kAxisD || depth) box[kAxes[axis]] = RangeJson(one.box[axis]);
    }
    return box;
  });
}

Json NamesJson(const Schedule& schedule, const std::vector<NodeId>& nodes) {
  return JsonList(nodes, [&](NodeId node) { return NodeOf(schedule, node).name; });
}

bool HasDepth(const ScheduledNode& node) { return node.shape.spatial_rank == 3; }

Json ShapeJson(const Shape& shape) {
  Json json = {shape.n, shape.c};
  for (size_t axis = shape.spatial_rank == 3 ? 0 : 1; axis < kMaxSpatial; ++axis) {
    json.push_back(shape.extents[axis]);
  }
  return json;
}

Json ConfigurationJson(const ParallelConfiguration& configuration) {
  const auto& [degrees, first_device] = configuration;
  Json json = {{"n", degrees.n}, {"c", degrees.c}, {"h", degrees.h}, {"w", degrees.w}};
  if (degrees.r != 1) json["r"] = degrees.r;
  if (first_device != 0) json["first_device"] = first_device;
  return json;
}

Json ParametersJson(const ScheduledNode& node) {
  return JsonList(node.parameters, [](const ScheduledParameter& parameter) {
    Json entry = {{"name", parameter.name}, {"shape", parameter.shape}};
    if (!parameter.trained) entry["trained"] = false;
    if (parameter.tensor >= 0) entry["tensor"] = parameter.tensor;
    entry["parts"] = JsonList(parameter.parts, [](const ParameterPart& part) {
      return Json{{"device", part.device}, {"ranges", RangesJson(part.ranges)}};
    });
    return entry;
  });
}

Json NodeJson(const Schedule& schedule, NodeId id) {
  const ScheduledNode& node = NodeOf(schedule, id);
  Json json = {{"name", node.name}, {"op", node.op}, {"inputs", NamesJson(schedule, node.inputs)}};
  if (node.layer != id) json["layer"] = NodeOf(schedule, node.layer).name;
  json["shape"] = ShapeJson(node.shape);
  if (!node.IsInput()) json["config"] = ConfigurationJson(node.configuration);
  json["boxes"] = BoxesJson(node.boxes, HasDepth(node));
  if (!node.partial.empty()) json["partial"] = BoxesJson(node.partial, HasDepth(node));
  if (node.inner > 0) json["inner"] = node.inner;
  if (node.groups > 0) json["groups"] = node.groups;
  if (node.by_position) json["by_position"] = true;
  for (size_t input = 0; input < node.needs.size(); ++input) {
    json["needs"].push_back(
        BoxesJson(node.needs[input], HasDepth(NodeOf(schedule, node.inputs[input]))));
  }
  if (!node.IsInput()) json["parameters"] = ParametersJson(node);
  return json;
}

Json ExchangeJson(const Schedule& schedule, size_t id) {
  const ScheduledExchange& exchange = schedule.exchanges[id];
  return {{"id", id},
          {"node", NodeOf(schedule, exchange.node).name},
          {"consumer", NodeOf(schedule, exchange.consumer).name},
          {"input", exchange.input == kPartialSums ? Json() : Json(exchange.input)},
          {"elements", exchange.elements}};
}

Json SumJson(const Schedule& schedule, size_t id) {
  const GradientSum& sum = schedule.sums[id];
  Json parameters = Json::array();
  for (const auto& [node, parameter] : sum.parameters) {
    const ScheduledNode& of = NodeOf(schedule, node);
    parameters.push_back({of.name, of.parameters[static_cast<size_t>(parameter)].name});
  }
  return {{"id", id},
          {"parameters", std::move(parameters)},
          {"devices", sum.devices},
          {"elements", sum.elements}};
}

Json StatisticsJson(const Schedule& schedule, size_t id) {
  const Statistics& statistics = schedule.statistics[id];
  Json groups = JsonList(statistics.groups, [](const StatisticsGroup& group) {
    return Json{
        {"devices", group.devices}, {"forward", group.forward}, {"backward", group.backward}};
  });
  return {{"id", id},
          {"node", NodeOf(schedule, statistics.node).name},
          {"kind", StatisticsName(statistics.kind)},
          {"groups", std::move(groups)}};
}

Json LabelsJson(const Schedule& schedule, size_t at) {
  const LabelMessage& labels = schedule.labels[at];
  return {{"node", NodeOf(schedule, labels.output).name},
          {"from", labels.from},
          {"to", labels.to},
          {"n", RangeJson(labels.images)}};
}

Json StepJson(const Schedule& schedule, size_t at) {
  const ScheduledStep& step = schedule.order[at];
  Json json = {kStepNames[static_cast<size_t>(step.kind)]};
  if (step.kind == StepKind::kForward) {
    json.push_back(NodeOf(schedule, step.of).name);
  } else {
    json.push_back(step.of);
  }
  if (step.pass >= 0) json.push_back(step.pass);
  return json;
}

Json PassesJson(const Schedule& schedule) {
  const Passes& passes = schedule.passes;
  return {{"scheme", std::string(1, passes.scheme)},
          {"update_every", passes.update == ConnectedUpdate::kEachPass ? "pass" : "batch"},
          {"nodes", NamesJson(schedule, passes.nodes)},
          {"images", JsonList(passes.images, RangesJson)}};
}

Json ElementsJson(const Schedule& schedule) {
  const ScheduleElements elements = ElementsOf(schedule);
  const auto moved = [](const MovedElements& of) { return Json{of.sent, of.received}; };
  Json devices = Json::array();
  for (const DeviceElements& one : elements.devices) {
    devices.push_back(
        {{"device", devices.size()},
         {"transfer", moved(one.transfer)},
         {"update", moved(one.update)},
         {"statistics", moved(one.statistics)},
         {"labels", moved(one.labels)},
         {"memory",
          {{"parameters", one.parameters}, {"outputs", one.outputs}, {"copies", one.copies}}}});
  }
  return {{"transfer", elements.transfer},
          {"update", elements.update},
          {"statistics", elements.statistics},
          {"labels", elements.labels},
          {"by_device", std::move(devices)}};
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Returns member `name` as a list with one item per line; item(i) makes item i.
template <typename Item>
std::string List(const char* name, size_t count, const Item& item) {
  std::string text = ",\n\"" + std::string(name) + "\":[";
  for (size_t at = 0; at < count; ++at) text += (at == 0 ? "\n" : ",\n") + Dump(item(at));
  return text + "]";
}

}  // namespace

const char* StatisticsName(StatisticsKind kind) {
  return kStatisticsNames[static_cast<size_t>(kind)];
}

std::string FormatSchedule(const Schedule& schedule) {
  const Json head = {
      {"format", "ucudnn-schedule"},
      {"version", 1},
      {"name", schedule.name},
      {"network", schedule.network},
      {"batch", schedule.batch},
      {"devices", schedule.devices},
      {"update", schedule.update == UpdateModel::kHierarchical ? "hierarchical" : "owner"},
      {"levels", schedule.levels}};
  std::string text = Dump(head);
  text.pop_back();  // removes the closing brace
  text += List("nodes", schedule.nodes.size(),
               [&](size_t at) { return NodeJson(schedule, static_cast<NodeId>(at)); });
  text += List("exchanges", schedule.exchanges.size(),
               [&](size_t at) { return ExchangeJson(schedule, at); });
  text += List("sums", schedule.sums.size(), [&](size_t at) { return SumJson(schedule, at); });
  text += List("statistics", schedule.statistics.size(),
               [&](size_t at) { return StatisticsJson(schedule, at); });
  text +=
      List("labels", schedule.labels.size(), [&](size_t at) { return LabelsJson(schedule, at); });
  text += List("order", schedule.order.size(), [&](size_t at) { return StepJson(schedule, at); });
  if (schedule.passes.Count() > 0) text += ",\n\"passes\":" + Dump(PassesJson(schedule));
  return text + ",\n\"elements\":" + Dump(ElementsJson(schedule)) + "}\n";
}

}  // namespace ucudnn::planner
