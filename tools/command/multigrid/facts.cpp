#include "command/multigrid/facts.h"

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

std::vector<int64_t> ExtentsOf(const planner::Shape& shape) {
  std::vector<int64_t> extents = {shape.c};
  extents.insert(extents.end(), shape.extents.end() - shape.spatial_rank, shape.extents.end());
  return extents;
}

}  // namespace

ProblemFacts FactsOf(const multigrid::Problem& problem,
                     const multigrid::NetworkSettings& settings) {
  const multigrid::ResidualChain& chain = problem.chain;
  // Counts parameters in the graph, because problem.parameters is empty if there are several ranks.
  const Result<int64_t> parameters = planner::ParameterCount(chain.graph);
  ProblemFacts facts = {.network = chain.graph.name,
                        .layers = LayersOf(chain),
                        .parameters = parameters.ok() ? *parameters : 0,
                        .has_drawn_weights = problem.has_drawn_weights};
  // If PlaceNetwork refuses the settings, stages have no levels here, and the solve reports why.
  const Result<multigrid::Placement> placement = multigrid::PlaceNetwork(chain, settings, 1);
  for (size_t at = 0; at < chain.sections.size(); ++at) {
    const auto* stage = std::get_if<Stage>(&chain.sections[at]);
    if (stage == nullptr) continue;
    const auto steps = static_cast<int>(stage->steps.size());
    StageFacts one = {.steps = steps,
                      .shape = ExtentsOf(stage->shape),
                      .step = settings.time > 0 ? settings.time / steps : settings.step};
    const Hierarchy hierarchy = placement.ok() ? placement->sections[at].hierarchy : Hierarchy();
    for (int level = 0; level < hierarchy.levels(); ++level) {
      one.levels.push_back(hierarchy.level(level).steps);
      if (level > 0) one.coarsening.push_back(hierarchy.level(level - 1).coarsening);
    }
    facts.stages.push_back(std::move(one));
  }
  return facts;
}

std::string LayersText(const std::vector<int64_t>& levels) {
  std::vector<std::string> texts;
  for (const int64_t layers : levels) texts.push_back(Grouped(layers));
  return Listed(texts);
}

int64_t RankBytes(const multigrid::Problem& problem, const multigrid::Placement& placement,
                  const multigrid::NetworkSettings& settings, int rank, multigrid::Passes passes,
                  int existing) {
  int64_t parameters = 0;
  for (size_t id = 0; id < problem.chain.graph.nodes.size(); ++id) {
    if (placement.owners[id] != rank) continue;
    const multigrid::WeightCounts counts =
        multigrid::WeightCountsOf(problem.chain, static_cast<planner::NodeId>(id));
    parameters += counts.weights + counts.bias;
  }
  // In training each parameter also has a gradient and a velocity.
  const int copies = (passes == multigrid::Passes::kForwardAndBackward ? 3 : 1) - existing;
  return copies * parameters * static_cast<int64_t>(sizeof(double)) +
         StateBytes(problem.chain, placement, settings, rank, passes);
}

}  // namespace ucudnn::command
