#include "planner/layout/planning_problem.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "planner/cost/transfer.h"

namespace ucudnn::planner {
namespace {

// Returns how often a tensor moves in one step: once forward and, if it has a gradient, once back.
int Directions(bool has_gradient) { return has_gradient ? 2 : 1; }

using Key = std::vector<int64_t>;

void Append(Key& key, const std::vector<ParallelConfiguration>& configurations) {
  for (const ParallelConfiguration& configuration : configurations) {
    const Degrees& degrees = configuration.degrees;
    key.insert(key.end(),
               {degrees.n, degrees.c, degrees.h, degrees.w, degrees.r, configuration.first_device});
  }
  key.push_back(-1);
}

// Collects all that a cost model reads about an edge, so that equal keys mean equal costs: the kind
// of the consumer, the tensor, the configurations `from` and `to`, and the parts that devices need.
Key KeyOf(const PlannedLayer& consumer, int input, const std::vector<ParallelConfiguration>& from,
          const std::vector<ParallelConfiguration>& to) {
  const Shape& tensor = consumer.inputs[static_cast<size_t>(input)].shape;
  Key key = {static_cast<int64_t>(consumer.op.index()),
             tensor.n,
             tensor.c,
             tensor.extents[0],
             tensor.extents[1],
             tensor.extents[2]};
  Append(key, from);
  Append(key, to);
  for (const ParallelConfiguration& configuration : to) {
    for (const auto& axis : NeededParts(consumer, input, configuration.degrees).axes) {
      for (const Interval& interval : axis) {
        key.push_back(interval.begin);
        key.push_back(interval.end);
      }
    }
  }
  return key;
}

using WeightParts = std::pair<int, int>;  // numbers of parts along output and input channels

WeightParts PartsOf(const ParallelConfiguration& configuration) {
  return {configuration.degrees.c, configuration.degrees.r};
}

// Returns pairs (first reader, later reader) of layers that read the same parameter tensor. No pair
// occurs twice.
std::set<std::pair<int, int>> SharedReaders(const LayerGraph& graph) {
  std::map<int, int> first;  // first reader of each tensor
  std::set<std::pair<int, int>> pairs;
  for (int layer = 0; layer < static_cast<int>(graph.layers.size()); ++layer) {
    for (const int tensor : graph.layers[static_cast<size_t>(layer)].tensors) {
      const int reader = first.try_emplace(tensor, layer).first->second;
      if (reader != layer) pairs.emplace(reader, layer);
    }
  }
  return pairs;
}

// Removes from each of two layers the configurations whose WeightParts no configuration of the
// other layer has. Returns whether any were removed.
bool KeepCommonParts(std::vector<ParallelConfiguration>& a, std::vector<ParallelConfiguration>& b) {
  const auto keep = [](std::vector<ParallelConfiguration>& mine,
                       const std::vector<ParallelConfiguration>& others) {
    std::set<WeightParts> known;
    for (const ParallelConfiguration& other : others) known.insert(PartsOf(other));
    return std::erase_if(mine, [&](const ParallelConfiguration& configuration) {
      return known.count(PartsOf(configuration)) == 0;
    });
  };
  return keep(a, b) + keep(b, a) > 0;
}

Status KeepCommonParts(const LayerGraph& graph, const std::set<std::pair<int, int>>& readers,
                       std::vector<std::vector<ParallelConfiguration>>& configurations) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [a, b] : readers) {
      auto& first = configurations[static_cast<size_t>(a)];
      auto& other = configurations[static_cast<size_t>(b)];
      changed |= KeepCommonParts(first, other);
      if (first.empty() || other.empty()) {
        return Status::Error("layers " + Quoted(graph.layers[static_cast<size_t>(a)].name) +
                             " and " + Quoted(graph.layers[static_cast<size_t>(b)].name) +
                             " share parameters; expected pins that divide c and r alike");
      }
    }
  }
  return Status::Ok();
}

SearchProblem::Edge EqualParts(const PlanningProblem& problem, int from, int to) {
  SearchProblem::Edge edge{from, to, {}, {}};
  for (const auto& a : problem.configurations[static_cast<size_t>(from)]) {
    for (const auto& b : problem.configurations[static_cast<size_t>(to)]) {
      edge.ms.push_back(PartsOf(a) == PartsOf(b) ? 0 : kForbiddenMs);
    }
  }
  edge.bytes.assign(edge.ms.size(), 0);
  return edge;
}

// Returns a machine that is large enough for every layer. Its links do not matter, because it is
// only used to count the elements that move.
Machine AnyMachine(const PlanningProblem& problem, const Assignment& assignment) {
  int devices = 1;
  for (int layer = 0; layer < static_cast<int>(assignment.size()); ++layer) {
    const ParallelConfiguration& chosen = ConfigurationOf(problem, assignment, layer);
    devices = std::max(devices, chosen.first_device + chosen.degrees.Workers());
  }
  return FlatMachine(devices);
}

}  // namespace

Result<PlanningProblem> BuildPlanningProblem(LayerGraph graph, int devices, const CostModel& model,
                                             const PlanningOptions& options) {
  PlanningProblem problem;
  UCUDNN_ASSIGN_OR_RETURN(problem.configurations,
                          LegalConfigurations(graph, devices, options.configurations));
  const std::set<std::pair<int, int>> readers = SharedReaders(graph);
  UCUDNN_RETURN_IF_ERROR(KeepCommonParts(graph, readers, problem.configurations));
  problem.graph = std::move(graph);
  problem.update = options.update;
  std::map<Key, TransferTables> known;
  for (size_t at = 0; at < problem.graph.layers.size(); ++at) {
    const PlannedLayer& layer = problem.graph.layers[at];
    SearchProblem::Layer costs;
    costs.name = layer.name;
    problem.compute.emplace_back();
    problem.update_ms.emplace_back();
    problem.reduction_ms.emplace_back();
    for (const ParallelConfiguration& configuration : problem.configurations[at]) {
      const ComputeModel::Cost compute = model.Compute(layer, configuration.degrees);
      problem.compute.back().push_back(compute);
      problem.update_ms.back().push_back(model.UpdateMs(layer, configuration));
      problem.reduction_ms.back().push_back(model.ReductionMs(layer, configuration) *
                                            Directions(layer.has_gradient) / 2);
      costs.ms.push_back(compute.ms + problem.update_ms.back().back() +
                         problem.reduction_ms.back().back());
      costs.bytes.push_back(LayerMemoryBytes(layer, configuration.degrees, options.optimizer_states,
                                             compute.workspace_bytes));
    }
    problem.search.layers.push_back(std::move(costs));
    for (int input = 0; input < static_cast<int>(layer.inputs.size()); ++input) {
      const int producer = layer.inputs[static_cast<size_t>(input)].producer;
      if (producer == kData) continue;
      const auto& from = problem.configurations[static_cast<size_t>(producer)];
      const auto& to = problem.configurations[at];
      const auto [tables, added] = known.try_emplace(KeyOf(layer, input, from, to));
      if (added) tables->second = model.Transfer(layer, input, from, to);
      SearchProblem::Edge edge{producer, static_cast<int>(at), tables->second.ms,
                               tables->second.copied_bytes};
      const bool has_gradient = layer.inputs[static_cast<size_t>(input)].has_gradient;
      for (double& ms : edge.ms) ms = ms * Directions(has_gradient) / 2;
      problem.search.edges.push_back(std::move(edge));
      problem.inputs.push_back(input);
    }
  }
  for (const auto& [from, to] : readers) {
    problem.search.edges.push_back(EqualParts(problem, from, to));
  }
  return problem;
}

const ParallelConfiguration& ConfigurationOf(const PlanningProblem& problem,
                                             const Assignment& assignment, int layer) {
  const auto at = static_cast<size_t>(layer);
  return problem.configurations[at][static_cast<size_t>(assignment[at])];
}

std::vector<int64_t> TransferBytes(const PlanningProblem& problem, const Assignment& assignment) {
  const Machine machine = AnyMachine(problem, assignment);
  TrafficCounter counter(machine);
  std::vector<int64_t> bytes;
  for (size_t at = 0; at < problem.inputs.size(); ++at) {
    const SearchProblem::Edge& edge = problem.search.edges[at];
    const PlannedLayer& consumer = problem.graph.layers[static_cast<size_t>(edge.to)];
    const int input = problem.inputs[at];
    const ParallelConfiguration& from = ConfigurationOf(problem, assignment, edge.from);
    const ParallelConfiguration& to = ConfigurationOf(problem, assignment, edge.to);
    const Traffic& traffic =
        counter.Count(OutputParts(consumer.inputs[static_cast<size_t>(input)].shape, from.degrees),
                      from.first_device, NeededParts(consumer, input, to.degrees), to.first_device);
    const bool has_gradient = consumer.inputs[static_cast<size_t>(input)].has_gradient;
    bytes.push_back(Directions(has_gradient) * traffic.moved * kElementBytes);
  }
  return bytes;
}

std::vector<int64_t> ReductionBytes(const PlanningProblem& problem, const Assignment& assignment) {
  const Machine machine = AnyMachine(problem, assignment);
  TrafficCounter counter(machine);
  std::vector<int64_t> bytes;
  for (size_t at = 0; at < problem.graph.layers.size(); ++at) {
    const auto& configuration = ConfigurationOf(problem, assignment, static_cast<int>(at));
    bytes.push_back(0);
    if (configuration.degrees.r == 1) continue;
    const PlannedLayer& layer = problem.graph.layers[at];
    const Traffic& traffic = CountReduction(counter, layer, configuration);
    bytes.back() = Directions(layer.has_gradient) * traffic.moved * kElementBytes;
  }
  return bytes;
}

LayoutCost CostOf(const PlanningProblem& problem, const Assignment& assignment) {
  LayoutCost cost;
  for (int layer = 0; layer < static_cast<int>(assignment.size()); ++layer) {
    const auto at = static_cast<size_t>(layer);
    const auto choice = static_cast<size_t>(assignment[at]);
    cost.compute_ms += problem.compute[at][choice].ms;
    cost.transfer_ms += problem.reduction_ms[at][choice];
    cost.update_ms += problem.update_ms[at][choice];
    cost.update_bytes +=
        UpdateBytes(problem.update, ConfigurationOf(problem, assignment, layer).degrees,
                    problem.graph.layers[at].parameters * kElementBytes);
  }
  for (const SearchProblem::Edge& edge : problem.search.edges) {
    cost.transfer_ms += edge.ms[static_cast<size_t>(assignment[static_cast<size_t>(edge.from)]) *
                                    static_cast<size_t>(problem.search.Configurations(edge.to)) +
                                static_cast<size_t>(assignment[static_cast<size_t>(edge.to)])];
  }
  for (const int64_t bytes : TransferBytes(problem, assignment)) cost.transfer_bytes += bytes;
  for (const int64_t bytes : ReductionBytes(problem, assignment)) cost.transfer_bytes += bytes;
  cost.total_ms = cost.transfer_ms + cost.compute_ms + cost.update_ms;
  cost.memory_bytes = TotalBytes(problem.search, assignment);
  return cost;
}

}  // namespace ucudnn::planner
