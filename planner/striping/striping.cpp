#include "planner/striping/striping.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/layer_graph.h"
#include "planner/graph/formats/operator_fields.h"

namespace ucudnn::planner {
namespace {

Status CheckGrid(const Graph& graph, const SpatialGrid& grid, int batch) {
  for (const Node& node : graph.nodes) {
    const auto* input = std::get_if<Input>(&node.op);
    if (input != nullptr && input->spatial_rank < kMaxSpatial && grid.d > 1) {
      return Status::Error("the grid " + grid.Text() + " cuts d, which " + Quoted(graph.name) +
                           ", of two axes, does not have");
    }
  }
  if (batch % grid.n != 0) {
    return Status::Error("a batch of " + std::to_string(batch) + " is not divided by the " +
                         std::to_string(grid.n) + " groups of the grid " + grid.Text());
  }
  return Status::Ok();
}

void AddMemory(const Graph& graph, const std::set<std::string>& layers, Striping& striping) {
  std::vector<int64_t> of_ranks(static_cast<size_t>(striping.grid.GroupSize()));
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    const StripedOperator& made = striping.operators[id];
    if (layers.count(node.name) == 0) continue;
    const Placement& output = made.judgement.output;
    striping.device_activation_bytes +=
        int64_t{output.shape.n} * output.shape.Features() * kElementBytes * striping.grid.n;
    for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
      of_ranks[rank] += output.Elements(striping.grid, static_cast<int>(rank)) * kElementBytes;
      if (made.judgement.verdict != Verdict::kGather) continue;
      const Placement& input =
          striping.operators[static_cast<size_t>(node.inputs.front())].judgement.output;
      of_ranks[rank] += int64_t{input.shape.n} * input.shape.Features() * kElementBytes;
    }
  }
  striping.rank_activation_bytes = *std::max_element(of_ranks.begin(), of_ranks.end());
  for (const StripedOperator& made : striping.operators) {
    for (const Exchange& exchange : made.exchanges) {
      for (const int64_t bytes : exchange.received) {
        striping.largest_exchange_bytes = std::max(striping.largest_exchange_bytes, bytes);
      }
    }
  }
}

}  // namespace

int Striping::Count(Verdict verdict) const {
  return static_cast<int>(std::count_if(
      operators.begin(), operators.end(),
      [&](const StripedOperator& made) { return made.judgement.verdict == verdict; }));
}

Verdict Striping::Worst() const {
  Verdict worst = unknown.empty() ? Verdict::kExact : Verdict::kUnvouched;
  for (const StripedOperator& made : operators) worst = std::max(worst, made.judgement.verdict);
  return worst;
}

StripeTraffic Striping::Traffic(bool forward_only) const {
  std::vector<Exchange> all;
  for (const StripedOperator& made : operators) {
    all.insert(all.end(), made.exchanges.begin(), made.exchanges.end());
  }
  return TrafficOf(all, grid, forward_only);
}

Result<Striping> StripeNetwork(const Graph& graph, const SpatialGrid& grid, int batch,
                               int multiple) {
  UCUDNN_RETURN_IF_ERROR(CheckGrid(graph, grid, batch));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(graph, batch / grid.n));
  UCUDNN_ASSIGN_OR_RETURN(const LayerGraph planned, BuildLayerGraph(graph, batch));
  UCUDNN_RETURN_IF_ERROR(ParameterCount(graph).status());
  const std::vector<ParameterCounts> own = OwnParameters(graph, shapes);
  Striping striping;
  striping.network = graph.name;
  striping.grid = grid;
  striping.batch = batch;
  striping.multiple = multiple;
  striping.unknown = graph.passed_through;
  for (const ParameterCounts& counts : own) {
    striping.parameter_bytes += (counts.trained + counts.fixed) * kElementBytes;
  }
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    std::vector<Placement> inputs;
    for (const NodeId input : node.inputs) {
      inputs.push_back(striping.operators[static_cast<size_t>(input)].judgement.output);
    }
    StripedOperator made{
        node.name,
        kOperatorNames[node.op.index()],
        Judge(node.op, inputs, shapes[id], GridOfNode(graph, node, grid), multiple),
        {}};
    if (node.inputs.empty()) {
      const auto positions = [](const Shape& shape) { return shape.Features() / shape.c; };
      const bool is_largest = positions(shapes[id]) > positions(striping.input);
      if (striping.operators.empty() || is_largest) striping.input = shapes[id];
    } else {
      const Node& from = graph.nodes[static_cast<size_t>(node.inputs.front())];
      const bool attends = std::holds_alternative<Attention>(node.op);
      made.exchanges = ExchangesOf(node.op, attends ? inputs[1] : inputs.front(), made.judgement,
                                   grid, own[id].trained, !from.inputs.empty());
    }
    striping.operators.push_back(std::move(made));
  }
  std::set<std::string> layers;
  for (const PlannedLayer& layer : planned.layers) layers.insert(layer.name);
  AddMemory(graph, layers, striping);
  return striping;
}

}  // namespace ucudnn::planner
