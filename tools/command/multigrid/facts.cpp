#include "command/multigrid/facts.h"

#include <algorithm>

#include "base/text.h"
#include "command/numbers.h"
#include "planner/graph/shapes.h"

namespace ucudnn::command {
namespace {

using multigrid::Hierarchy;
using multigrid::Stage;

int LayersOf(const multigrid::ResidualChain& chain) {
  int layers = 0;
  for (const planner::Node& node : chain.graph.nodes) {
    if (std::holds_alternative<planner::Convolution>(node.op) ||
        std::holds_alternative<planner::FullyConnected>(node.op) ||
        std::holds_alternative<planner::Softmax>(node.op)) {
      ++layers;
    }
  }
  return layers;
}

std::vector<int> ExtentsOf(const planner::Shape& shape) {
  std::vector<int> extents = {shape.c};
  extents.insert(extents.end(), shape.extents.end() - shape.spatial_rank, shape.extents.end());
  return extents;
}

// Returns the number of parameters of a node.
int64_t CountOf(const multigrid::ResidualChain& chain, size_t id) {
  const multigrid::WeightCounts counts =
      multigrid::WeightCountsOf(chain, static_cast<planner::NodeId>(id));
  return counts.weights + counts.bias;
}

// Returns the hierarchy that NetworkSolver makes: a stage with too few layers for coarsening has
// one level. Returns none if the settings permit no hierarchy.
std::vector<Hierarchy> LevelsOf(int steps, const multigrid::NetworkSettings& settings) {
  const bool is_serial = settings.method == multigrid::Method::kPartitioned;
  for (const int levels : {is_serial ? 1 : settings.levels, 1}) {
    Result<Hierarchy> made = Hierarchy::Make(steps, settings.coarsening, levels);
    if (made.ok()) return {std::move(*made)};
  }
  return {};
}

}  // namespace

ProblemFacts FactsOf(const multigrid::Problem& problem,
                     const multigrid::NetworkSettings& settings) {
  ProblemFacts facts = {.network = problem.chain.graph.name,
                        .layers = LayersOf(problem.chain),
                        .has_drawn_weights = problem.has_drawn_weights};
  // Counts from the graph, because `problem` holds no parameters if there are several ranks.
  const planner::Graph& graph = problem.chain.graph;
  for (size_t id = 0; id < graph.nodes.size(); ++id) facts.parameters += CountOf(problem.chain, id);
  for (const Stage* stage : problem.chain.Stages()) {
    StageFacts one = {.steps = static_cast<int>(stage->steps.size()),
                      .shape = ExtentsOf(stage->shape),
                      .h = settings.step};
    if (settings.time > 0) one.h = settings.time / one.steps;
    for (const Hierarchy& hierarchy : LevelsOf(one.steps, settings)) {
      for (int level = 0; level < hierarchy.levels(); ++level) {
        one.levels.push_back(hierarchy.level(level).steps);
        if (level > 0) one.coarsening.push_back(hierarchy.level(level - 1).coarsening);
      }
    }
    facts.stages.push_back(std::move(one));
  }
  return facts;
}

std::string LayersText(const std::vector<int>& levels) {
  std::vector<std::string> texts;
  for (const int layers : levels) texts.push_back(Grouped(layers));
  return Listed(texts);
}

int64_t RankBytes(const multigrid::Problem& problem, const multigrid::Placement& placement,
                  const multigrid::NetworkSettings& settings, int rank, multigrid::Passes passes,
                  int existing) {
  int64_t parameters = 0;
  for (size_t id = 0; id < problem.chain.graph.nodes.size(); ++id) {
    if (placement.owners[id] == rank) parameters += CountOf(problem.chain, id);
  }
  int64_t states = 0;
  for (size_t at = 0; at < placement.sections.size(); ++at) {
    const auto* stage = std::get_if<Stage>(&problem.chain.sections[at]);
    const multigrid::Partition& partition = placement.sections[at].partition;
    if (stage == nullptr || rank >= partition.ranks()) continue;
    const Hierarchy& levels = placement.sections[at].hierarchy;
    const Hierarchy own = levels.Part(partition.begins[rank], partition.begins[rank + 1],
                                      std::min(partition.distributed + 1, levels.levels()));
    int64_t count = multigrid::BlockSystem::StatesFor(own, settings.lanes, settings.storage);
    if (partition.Gathers(levels) && rank == 0) {
      count += multigrid::BlockSystem::StatesFor(levels.CoarseLevels(partition.distributed),
                                                 settings.lanes, multigrid::Storage::kAll);
    }
    states += count * stage->shape.Features() * settings.batch;
  }
  // In training each parameter also has a gradient and a velocity, and each state an adjoint.
  const bool trains = passes == multigrid::Passes::kForwardAndBackward;
  const int64_t numbers = parameters * ((trains ? 3 : 1) - existing) + states * (trains ? 2 : 1);
  return numbers * static_cast<int64_t>(sizeof(double));
}

}  // namespace ucudnn::command
