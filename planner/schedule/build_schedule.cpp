#include "planner/schedule/build_schedule.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "base/text.h"
#include "planner/graph/formats/operator_fields.h"
#include "planner/schedule/gradient_sums.h"
#include "planner/schedule/labels.h"
#include "planner/schedule/parameters.h"
#include "planner/schedule/passes.h"
#include "planner/schedule/statistics.h"

namespace ucudnn::planner {
namespace {

std::string HashOf(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3;
  }
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, hash);
  return digits;
}

// Returns the hash that FORMAT.md describes as `network`.
std::string NetworkHash(const Graph& graph, const std::vector<Shape>& shapes) {
  std::string text;
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    std::vector<std::string> inputs;
    for (const NodeId input : node.inputs) {
      inputs.push_back(graph.nodes[static_cast<size_t>(input)].name);
    }
    const std::string image = Describe(shapes[id]);
    const int64_t trained =
        inputs.empty()
            ? 0
            : ParametersOf(node, shapes[static_cast<size_t>(node.inputs.front())]).trained;
    text += Join({node.name, kOperatorNames[node.op.index()], Join(inputs, ","),
                  image.substr(image.find('x') + 1), std::to_string(trained)},
                 "\t") +
            "\n";
  }
  return HashOf(text);
}

std::string CalledLayer(const PlannedLayer& layer, const ParallelConfiguration& configuration) {
  return "layer " + Quoted(layer.name) + " with " + Describe(configuration.degrees);
}

// Returns, by NodeId, whether another node reads the node's output.
std::vector<bool> AreRead(const Graph& graph) {
  std::vector<bool> read(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    for (const NodeId input : node.inputs) read[static_cast<size_t>(input)] = true;
  }
  return read;
}

// Fails if no rule says how a device computes its box of the node under `degrees`. An Opaque
// operator may divide channels only if it mixes positions by means and variances alone (`sums`). A
// softmax that a layer reads needs all channels. The loss of an output needs all positions of an
// image.
Status CheckRule(const Node& node, bool is_read, const Degrees& degrees) {
  const auto* opaque = std::get_if<Opaque>(&node.op);
  if (opaque != nullptr && !opaque->sums && degrees.c > 1) {
    return Status::Error("what a " + Quoted(opaque->kind) +
                         " computes of some channels is not known; expected c of 1");
  }
  if (std::holds_alternative<Softmax>(node.op) && is_read && degrees.WeightParts() > 1) {
    return Status::Error("a layer reads its softmax " + Quoted(node.name) +
                         ", which needs all channels; expected c and r of 1");
  }
  if (!is_read && (degrees.h > 1 || degrees.w > 1)) {
    return Status::Error("the loss of output " + Quoted(node.name) +
                         " needs all positions of an image; expected h and w of 1");
  }
  return Status::Ok();
}

// Fails if two nodes that read one parameter tensor have it on different devices or in different
// parts.
Status CheckSharedTensors(const std::vector<ScheduledNode>& nodes) {
  std::map<int, std::pair<const ScheduledNode*, const ScheduledParameter*>> first;
  for (const ScheduledNode& node : nodes) {
    for (const ScheduledParameter& parameter : node.parameters) {
      if (parameter.tensor < 0) continue;
      const auto [known, added] = first.try_emplace(parameter.tensor, &node, &parameter);
      if (added || known->second.second->parts == parameter.parts) continue;
      return Status::Error("layers " + Quoted(known->second.first->name) + " and " +
                           Quoted(node.name) + " share parameters; expected pins that put them " +
                           "on the same devices in the same parts");
    }
  }
  return Status::Ok();
}

std::vector<DeviceBox> WithoutHalos(const std::vector<NeededBox>& needed) {
  std::vector<DeviceBox> boxes;
  for (const NeededBox& one : needed) boxes.push_back({one.device, one.box});
  return boxes;
}

// Returns the smallest box that holds both boxes.
Box Hull(const Box& a, const Box& b) {
  Box hull;
  for (size_t axis = 0; axis < kTensorAxes; ++axis) {
    hull[axis] = {std::min(a[axis].begin, b[axis].begin), std::max(a[axis].end, b[axis].end)};
  }
  return hull;
}

// Sets the box of each input on each device: the smallest box that holds all parts of the input
// that nodes on the device need.
void LoadInputs(std::vector<ScheduledNode>& nodes) {
  std::map<std::pair<NodeId, int>, Box> loaded;  // by input and device
  for (const ScheduledNode& node : nodes) {
    for (size_t input = 0; input < node.needs.size(); ++input) {
      const NodeId source = node.inputs[input];
      if (!nodes[static_cast<size_t>(source)].IsInput()) continue;
      for (const DeviceBox& one : node.needs[input]) {
        const auto [known, added] = loaded.try_emplace({source, one.device}, one.box);
        if (!added) known->second = Hull(known->second, one.box);
      }
    }
  }
  for (const auto& [key, box] : loaded) {
    nodes[static_cast<size_t>(key.first)].boxes.push_back({key.second, box});
  }
}

// Maps the name of each node to the layer that computes it.
std::map<std::string, int> LayersByNode(const LayerGraph& graph) {
  std::map<std::string, int> layers;
  for (size_t at = 0; at < graph.layers.size(); ++at) {
    layers[graph.layers[at].name] = static_cast<int>(at);
    for (const std::string& follower : graph.layers[at].followers) {
      layers[follower] = static_cast<int>(at);
    }
  }
  return layers;
}

Result<std::vector<ScheduledNode>> NodesOf(const Graph& graph, const std::vector<Shape>& shapes,
                                           const PlanningProblem& problem,
                                           const Assignment& assignment) {
  const std::map<std::string, int> layers = LayersByNode(problem.graph);
  const std::vector<bool> have_gradients = HaveGradients(graph, shapes);
  const std::vector<bool> read = AreRead(graph);
  std::vector<ScheduledNode> nodes;
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    ScheduledNode scheduled{node.name,   kOperatorNames[node.op.index()],
                            node.inputs, static_cast<NodeId>(id),
                            shapes[id],  {},
                            {},          {},
                            {},          {}};
    scheduled.has_gradient = have_gradients[id];
    if (!scheduled.IsInput()) {
      const int at = layers.at(node.name);
      const PlannedLayer& layer = problem.graph.layers[static_cast<size_t>(at)];
      const ParallelConfiguration& configuration = ConfigurationOf(problem, assignment, at);
      const auto refuse = [&](const Status& status) {
        return Status::Error(CalledLayer(layer, configuration) + ": " + status.message());
      };
      if (Status rule = CheckRule(node, read[id], configuration.degrees); !rule.ok()) {
        return refuse(rule);
      }
      if (const auto* norm = std::get_if<GroupNormalization>(&node.op)) {
        scheduled.groups = norm->groups;
        scheduled.by_position = norm->by_position;
      }
      scheduled.configuration = configuration;
      scheduled.boxes = OutputBoxes(layer, configuration);
      if (layer.name == node.name) {
        scheduled.inner =
            InnerElements(layer) / (static_cast<double>(layer.output.Features()) * layer.output.n);
        for (const PartialBox& one : PartialBoxes(layer, configuration)) {
          scheduled.partial.push_back({one.device, one.box});
        }
        for (size_t input = 0; input < layer.inputs.size(); ++input) {
          scheduled.needs.push_back(
              WithoutHalos(NeededBoxes(layer, static_cast<int>(input), configuration)));
        }
      } else {
        scheduled.layer = nodes[static_cast<size_t>(node.inputs.front())].layer;
      }
      auto parameters = DivideParameters(node, shapes[static_cast<size_t>(node.inputs.front())],
                                         layer, configuration);
      if (!parameters.ok()) return refuse(parameters.status());
      scheduled.parameters = std::move(*parameters);
    }
    nodes.push_back(std::move(scheduled));
  }
  UCUDNN_RETURN_IF_ERROR(CheckSharedTensors(nodes));
  LoadInputs(nodes);
  return nodes;
}

// Appends each exchange in which something moves to schedule.exchanges, ordered by the node that is
// read. A node's partial sums come before its other exchanges.
void AddExchanges(Schedule& schedule) {
  std::vector<std::vector<ScheduledExchange>> by_node(schedule.nodes.size());
  for (size_t id = 0; id < schedule.nodes.size(); ++id) {
    const ScheduledNode& node = schedule.nodes[id];
    const auto consumer = static_cast<NodeId>(id);
    for (size_t input = 0; input < node.needs.size(); ++input) {
      const NodeId read = node.inputs[input];
      if (NodeOf(schedule, read).IsInput()) continue;
      by_node[static_cast<size_t>(read)].push_back({read, consumer, static_cast<int>(input), 0});
    }
    if (!node.partial.empty()) {
      by_node[id].insert(by_node[id].begin(), {consumer, consumer, kPartialSums, 0});
    }
  }
  for (const std::vector<ScheduledExchange>& exchanges : by_node) {
    for (ScheduledExchange exchange : exchanges) {
      for (const Transfer& one : TransfersOf(schedule, exchange)) {
        exchange.elements += Elements(one.box);
      }
      if (exchange.elements > 0) schedule.exchanges.push_back(exchange);
    }
  }
}

// Writes the schedule's order, which all devices follow, node by node.
class OrderWriter {
 public:
  explicit OrderWriter(Schedule& schedule)
      : schedule_(schedule),
        reads_(schedule.nodes.size()),
        sends_(schedule.nodes.size()),
        statistics_(schedule.nodes.size(), -1) {
    for (size_t id = 0; id < schedule.exchanges.size(); ++id) {
      const ScheduledExchange& exchange = schedule.exchanges[id];
      sends_[static_cast<size_t>(exchange.node)].push_back(static_cast<int>(id));
      if (exchange.input == kPartialSums) continue;
      reads_[static_cast<size_t>(exchange.consumer)].push_back(static_cast<int>(id));
    }
    for (size_t id = 0; id < schedule.statistics.size(); ++id) {
      const Statistics& statistics = schedule.statistics[id];
      if (IsOfOutput(statistics)) continue;
      statistics_[static_cast<size_t>(statistics.node)] = static_cast<int>(id);
    }
  }

  void Write() {
    const Passes& passes = schedule_.passes;
    for (size_t id = 0; id < schedule_.nodes.size(); ++id) {
      const auto node = static_cast<NodeId>(id);
      if (!std::binary_search(passes.nodes.begin(), passes.nodes.end(), node)) Run(node, -1);
    }
    if (passes.Count() > 0) Feed(0);
    for (int pass = 0; pass < passes.Count(); ++pass) {
      if (pass + 1 < passes.Count()) Feed(pass + 1);
      for (const NodeId node : passes.nodes) Run(node, pass);
      FinishOutputs(StatisticsKind::kClassifier, pass);
      Add(StepKind::kBackward, pass);
    }
    if (passes.Count() == 0) FinishOutputs(StatisticsKind::kClassifier, -1);
    FinishOutputs(StatisticsKind::kLoss, -1);
  }

 private:
  static bool IsOfOutput(const Statistics& statistics) {
    return statistics.kind == StatisticsKind::kClassifier ||
           statistics.kind == StatisticsKind::kLoss;
  }

  void Add(StepKind kind, int of, int pass = -1) { schedule_.order.push_back({kind, of, pass}); }

  void Run(NodeId node, int pass) {
    if (NodeOf(schedule_, node).IsInput()) return;
    const auto at = static_cast<size_t>(node);
    for (const int exchange : reads_[at]) Add(StepKind::kWait, exchange, pass);
    if (statistics_[at] >= 0) Add(StepKind::kStatistics, statistics_[at], pass);
    Add(StepKind::kForward, node, pass);
    for (const int id : sends_[at]) {
      const ScheduledExchange& exchange = schedule_.exchanges[static_cast<size_t>(id)];
      if (FeedsPasses(schedule_, exchange)) continue;
      Add(StepKind::kExchange, id, pass);
      if (exchange.input == kPartialSums) Add(StepKind::kWait, id, pass);
    }
  }

  void Feed(int pass) {
    for (size_t id = 0; id < schedule_.exchanges.size(); ++id) {
      if (!FeedsPasses(schedule_, schedule_.exchanges[id])) continue;
      Add(StepKind::kExchange, static_cast<int>(id), pass);
    }
  }

  void FinishOutputs(StatisticsKind kind, int pass) {
    for (size_t id = 0; id < schedule_.statistics.size(); ++id) {
      if (schedule_.statistics[id].kind != kind) continue;
      Add(StepKind::kStatistics, static_cast<int>(id), pass);
    }
  }

  Schedule& schedule_;
  std::vector<std::vector<int>> reads_;  // by consumer: exchanges
  std::vector<std::vector<int>> sends_;  // by producer: exchanges, partial sums first
  std::vector<int> statistics_;          // by node: its normalization's Statistics; -1: none
};

}  // namespace

std::function<bool(const PlannedLayer&, const Degrees&)> HasRule(const Graph& graph) {
  std::map<std::string, std::pair<Node, bool>> nodes;  // by name: the node, and whether it is read
  const std::vector<bool> read = AreRead(graph);
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    nodes.try_emplace(graph.nodes[id].name, graph.nodes[id], read[id]);
  }
  return [nodes = std::move(nodes)](const PlannedLayer& layer, const Degrees& degrees) {
    const auto has_rule = [&](const std::string& name) {
      const auto& [node, is_read] = nodes.at(name);
      return CheckRule(node, is_read, degrees).ok();
    };
    return has_rule(layer.name) &&
           std::all_of(layer.followers.begin(), layer.followers.end(), has_rule);
  };
}

Result<Schedule> BuildSchedule(const Graph& graph, const PlanningProblem& problem,
                               const Assignment& assignment, const Machine& machine,
                               const ScheduleOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(graph, problem.graph.batch));
  Schedule schedule;
  schedule.name = graph.name;
  schedule.network = NetworkHash(graph, shapes);
  schedule.batch = problem.graph.batch;
  schedule.devices = machine.Devices();
  schedule.update = options.update;
  for (const Level& level : machine.levels) schedule.levels.push_back(level.count);
  UCUDNN_ASSIGN_OR_RETURN(schedule.nodes, NodesOf(graph, shapes, problem, assignment));
  AddExchanges(schedule);
  if (options.scheme != 'a') UCUDNN_RETURN_IF_ERROR(DivideIntoPasses(graph, options, schedule));
  schedule.sums = SumsOf(schedule.nodes);
  schedule.statistics = StatisticsOf(schedule);
  schedule.labels = LabelsOf(schedule);
  OrderWriter(schedule).Write();
  return schedule;
}

}  // namespace ucudnn::planner
