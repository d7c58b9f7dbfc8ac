#include "planner/multigrid/residual_chain.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "planner/graph/formats/operator_fields.h"
#include "planner/graph/networks.h"

namespace ucudnn::multigrid {
namespace {

using planner::Graph;
using planner::Node;
using planner::NodeId;
using planner::Operator;
using planner::Shape;

const Node& NodeOf(const Graph& graph, NodeId id) { return graph.nodes[id]; }

Status Refusal(const Graph& graph, NodeId node, const std::string& what) {
  return Status::Error(graph.name + ": node " + Quoted(NodeOf(graph, node).name) + ": " + what);
}

// Returns the name of an operator in ucudnn-net files; for an activation, the name of its function.
std::string NameOf(const Operator& op) {
  if (const auto* activation = std::get_if<planner::Activation>(&op)) {
    return planner::kActivationKindNames[static_cast<size_t>(activation->kind)];
  }
  return planner::kOperatorNames[op.index()];
}

// Returns for each node how often other nodes have it as an input.
std::vector<int> CountUses(const Graph& graph) {
  std::vector<int> uses(graph.nodes.size(), 0);
  for (const Node& node : graph.nodes) {
    for (const NodeId input : node.inputs) ++uses[input];
  }
  return uses;
}

// Returns the nodes after `input` up to and including `end`. Returns none if one of these nodes has
// several inputs or not exactly one reader.
std::vector<NodeId> NodesBetween(const Graph& graph, const std::vector<int>& uses, NodeId input,
                                 NodeId end) {
  std::vector<NodeId> nodes;
  for (NodeId node = end; node != input; node = NodeOf(graph, node).inputs.front()) {
    if (uses[node] != 1 || NodeOf(graph, node).inputs.size() != 1) return {};
    nodes.push_back(node);
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

struct FoundStep {
  NodeId input = 0;
  ResidualStep step;
};

// Finds a step by the structure of the graph alone, whatever its operators are.
std::optional<FoundStep> FindStep(const Graph& graph, const std::vector<int>& uses, NodeId sum) {
  const std::vector<NodeId>& inputs = NodeOf(graph, sum).inputs;
  if (inputs.size() != 2) return std::nullopt;
  for (const size_t first : {size_t{0}, size_t{1}}) {
    std::vector<NodeId> nodes = NodesBetween(graph, uses, inputs[first], inputs[1 - first]);
    if (!nodes.empty()) return FoundStep{inputs[first], {std::move(nodes), sum}};
  }
  return std::nullopt;
}

Result<std::vector<FoundStep>> FindSteps(const Graph& graph, const std::vector<int>& uses) {
  std::vector<FoundStep> steps;
  NodeId other_sum = -1;  // the first sum that ends no step
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    if (!std::holds_alternative<planner::Add>(NodeOf(graph, id).op)) continue;
    std::optional<FoundStep> step = FindStep(graph, uses, id);
    if (step) {
      steps.push_back(std::move(*step));
    } else if (other_sum < 0) {
      other_sum = id;
    }
  }
  if (!steps.empty()) return steps;
  const std::string expected =
      "expected sums of two inputs: a node, and the end of a chain of layers that begins with it";
  if (other_sum < 0) return Status::Error(graph.name + ": no residual step; " + expected);
  return Refusal(graph, other_sum, "no residual step, and no other node is one; " + expected);
}

// Joins steps to stages, in the order of their last sums. A step joins the stage before it if no
// other node reads the state between them.
std::vector<Stage> JoinSteps(const std::vector<FoundStep>& steps, const std::vector<int>& uses,
                             const std::vector<Shape>& shapes) {
  std::vector<Stage> stages;
  // By the node of a step's sum: the stage that the step joined; -1 for other nodes.
  std::vector<int> stage_of(uses.size(), -1);
  for (const FoundStep& found : steps) {
    int stage = stage_of[found.input];
    if (stage < 0 || uses[found.input] != 2) {
      stage = static_cast<int>(stages.size());
      stages.push_back({found.input, shapes[found.step.sum], {}});
    }
    stages[stage].steps.push_back(found.step);
    stage_of[found.step.sum] = stage;
  }
  std::sort(stages.begin(), stages.end(),
            [](const Stage& a, const Stage& b) { return a.steps.back().sum < b.steps.back().sum; });
  return stages;
}

bool KeepsPositions(const Operator& op) {
  return std::holds_alternative<planner::Activation>(op) ||
         std::holds_alternative<planner::BatchNormalization>(op) ||
         std::holds_alternative<planner::Scale>(op) ||
         std::holds_alternative<planner::LocalResponseNormalization>(op) ||
         std::holds_alternative<planner::Dropout>(op);
}

std::string ExampleFor(const Graph& graph) {
  const std::vector<std::string>& names = planner::NetworkNames();
  const std::string same = graph.name + "-v2";
  return std::find(names.begin(), names.end(), same) == names.end() ? "resnet50-v2" : same;
}

// Fails if an activation or another operator that keeps positions is between two stages of one step
// each. Such stages are the blocks of a post-activation network. If one of the two stages has
// several steps, any operators may be between them.
Status CheckBetween(const Graph& graph, const std::vector<Stage>& stages) {
  std::vector<bool> ends_single_step(graph.nodes.size(), false);
  for (const Stage& stage : stages) {
    if (stage.steps.size() != 1) continue;
    NodeId behind = -1;
    NodeId node = stage.input;
    while (KeepsPositions(NodeOf(graph, node).op)) {
      behind = node;
      node = NodeOf(graph, node).inputs.front();
    }
    if (behind >= 0 && ends_single_step[node]) {
      return Refusal(graph, behind,
                     NameOf(NodeOf(graph, behind).op) + " between the residual steps " +
                         Quoted(NodeOf(graph, node).name) + " and " +
                         Quoted(NodeOf(graph, stage.steps.front().sum).name) +
                         "; expected the sum itself as the next step's input, as in " +
                         ExampleFor(graph));
    }
    ends_single_step[stage.steps.front().sum] = true;
  }
  return Status::Ok();
}

Status CheckOperator(const Graph& graph, NodeId node, NodeId sum, BatchNorms norms) {
  const Operator& op = NodeOf(graph, node).op;
  const std::string here = " in the residual step " + Quoted(NodeOf(graph, sum).name);
  if (std::holds_alternative<planner::BatchNormalization>(op)) {
    if (norms == BatchNorms::kFrozen) return Status::Ok();
    return Refusal(graph, node,
                   NameOf(op) + here + ", whose statistics couple the images of a mini-batch, " +
                       "and so the solves of the layers; expected none, or a frozen one");
  }
  if (const auto* activation = std::get_if<planner::Activation>(&op)) {
    if (activation->kind == planner::ActivationKind::kRelu ||
        activation->kind == planner::ActivationKind::kTanh) {
      return Status::Ok();
    }
    return Refusal(graph, node, NameOf(op) + here + "; expected relu or tanh");
  }
  if (std::holds_alternative<planner::Convolution>(op) ||
      std::holds_alternative<planner::FullyConnected>(op) ||
      std::holds_alternative<planner::Flatten>(op) ||
      std::holds_alternative<planner::Reshape>(op)) {
    return Status::Ok();
  }
  return Refusal(graph, node,
                 NameOf(op) + here + "; expected convolutions, fully connected layers, relu, " +
                     "tanh and frozen batch normalisations");
}

Status CheckSteps(const Graph& graph, const std::vector<Stage>& stages, BatchNorms norms) {
  bool any_follows = false;
  for (const Stage& stage : stages) {
    for (const ResidualStep& step : stage.steps) {
      for (const NodeId node : step.transformation) {
        UCUDNN_RETURN_IF_ERROR(CheckOperator(graph, node, step.sum, norms));
      }
    }
    any_follows = any_follows || stage.steps.size() > 1;
  }
  if (any_follows) return Status::Ok();
  return Refusal(graph, stages.front().steps.front().sum,
                 "no residual step follows it at once, nor any other; expected two or more of one "
                 "shape in a row");
}

// Orders the sections, each stage at the position of its last sum. This order is correct, because
// the last sum is the only node of a stage that nodes outside of the stage read.
std::vector<std::variant<SerialSection, Stage>> PutInOrder(size_t nodes,
                                                           std::vector<Stage> stages) {
  std::vector<bool> in_stage(nodes, false);
  for (const Stage& stage : stages) {
    for (const ResidualStep& step : stage.steps) {
      in_stage[step.sum] = true;
      for (const NodeId node : step.transformation) in_stage[node] = true;
    }
  }
  std::vector<std::variant<SerialSection, Stage>> sections;
  size_t next = 0;  // number of the next stage
  for (size_t id = 0; id < nodes; ++id) {
    if (!in_stage[id]) {
      if (sections.empty() || !std::holds_alternative<SerialSection>(sections.back())) {
        sections.emplace_back(SerialSection{});
      }
      std::get<SerialSection>(sections.back()).nodes.push_back(static_cast<NodeId>(id));
    } else if (next < stages.size() && static_cast<size_t>(stages[next].steps.back().sum) == id) {
      sections.emplace_back(std::move(stages[next++]));
    }
  }
  return sections;
}

}  // namespace

std::vector<const Stage*> ResidualChain::Stages() const {
  std::vector<const Stage*> stages;
  for (const auto& section : sections) {
    if (const auto* stage = std::get_if<Stage>(&section)) stages.push_back(stage);
  }
  return stages;
}

const Stage* ResidualChain::LongestStage() const {
  const Stage* longest = nullptr;
  for (const Stage* stage : Stages()) {
    if (longest == nullptr || stage->steps.size() > longest->steps.size()) longest = stage;
  }
  return longest;
}

int ResidualChain::StepCount() const {
  size_t steps = 0;
  for (const Stage* stage : Stages()) steps += stage->steps.size();
  return static_cast<int>(steps);
}

Result<ResidualChain> MakeResidualChain(const Graph& graph, BatchNorms norms) {
  UCUDNN_ASSIGN_OR_RETURN(std::vector<Shape> shapes, planner::InferShapes(graph, 1));
  const std::vector<int> uses = CountUses(graph);
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<FoundStep> steps, FindSteps(graph, uses));
  std::vector<Stage> stages = JoinSteps(steps, uses, shapes);
  UCUDNN_RETURN_IF_ERROR(CheckBetween(graph, stages));
  UCUDNN_RETURN_IF_ERROR(CheckSteps(graph, stages, norms));
  ResidualChain chain{graph, std::move(shapes), {}};
  chain.sections = PutInOrder(graph.nodes.size(), std::move(stages));
  return chain;
}

}  // namespace ucudnn::multigrid
