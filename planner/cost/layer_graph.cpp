#include "planner/cost/layer_graph.h"

#include <algorithm>

#include "base/text.h"

namespace ucudnn::planner {
namespace {

bool Follows(const Operator& op) {
  return std::holds_alternative<Activation>(op) || std::holds_alternative<Dropout>(op) ||
         std::holds_alternative<BatchNormalization>(op) || std::holds_alternative<Scale>(op) ||
         std::holds_alternative<Softmax>(op) || std::holds_alternative<CrossEntropy>(op) ||
         std::holds_alternative<LogisticLoss>(op);
}

int64_t Biases(const Operator& op) {
  if (const auto* convolution = std::get_if<Convolution>(&op)) {
    return convolution->bias ? convolution->filters : 0;
  }
  if (const auto* transposed = std::get_if<TransposedConvolution>(&op)) {
    return transposed->bias ? transposed->filters : 0;
  }
  if (const auto* connected = std::get_if<FullyConnected>(&op)) {
    return connected->bias ? connected->outputs : 0;
  }
  if (const auto* linear = std::get_if<Linear>(&op)) return linear->bias ? linear->outputs : 0;
  return 0;
}

PlannedLayer MakeLayer(const Node& node, const Shape& output, std::vector<LayerInput> inputs) {
  PlannedLayer layer;
  layer.name = node.name;
  layer.op = node.op;
  layer.output = output;
  const ParameterCounts read = ParametersOf({"", node.op, {}}, inputs.front().shape);
  layer.weights = read.trained - Biases(node.op);
  layer.trains_weights =
      layer.weights > 0 && (node.parameters.empty() || node.parameters.front().trained);
  layer.inputs = std::move(inputs);
  return layer;
}

void AddParameters(const Node& node, const ParameterCounts& own, PlannedLayer& layer) {
  layer.parameters += own.trained;
  layer.fixed_parameters += own.fixed;
  for (const Parameter& parameter : node.parameters) {
    if (parameter.tensor >= 0) layer.tensors.push_back(parameter.tensor);
  }
}

}  // namespace

int LayerGraph::Find(const std::string& layer) const {
  const auto found = std::find_if(layers.begin(), layers.end(), [&](const PlannedLayer& candidate) {
    return candidate.name == layer;
  });
  return found == layers.end() ? -1 : static_cast<int>(found - layers.begin());
}

Result<LayerGraph> BuildLayerGraph(const Graph& graph, int batch) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(graph, batch));
  const std::vector<ParameterCounts> own = OwnParameters(graph, shapes);
  const std::vector<bool> have_gradients = HaveGradients(graph, shapes);
  LayerGraph out;
  out.name = graph.name;
  out.batch = batch;
  std::vector<int> layer_of;  // by NodeId
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (node.inputs.empty()) {
      layer_of.push_back(kData);
      continue;
    }
    std::vector<LayerInput> inputs;
    for (const NodeId input : node.inputs) {
      const auto at = static_cast<size_t>(input);
      inputs.push_back({layer_of[at], shapes[at], have_gradients[at]});
    }
    const int producer = inputs.front().producer;
    if (Follows(node.op) && producer != kData) {
      PlannedLayer& layer = out.layers[static_cast<size_t>(producer)];
      AddParameters(node, own[id], layer);
      layer.followers.push_back(node.name);
      layer_of.push_back(producer);
      continue;
    }
    layer_of.push_back(static_cast<int>(out.layers.size()));
    out.layers.push_back(MakeLayer(node, shapes[id], std::move(inputs)));
    out.layers.back().has_gradient = have_gradients[id];
    AddParameters(node, own[id], out.layers.back());
  }
  if (out.layers.empty()) {
    return Status::Error(Quoted(graph.name) + " has no layers; expected at least one");
  }
  return out;
}

double ForwardOperations(const PlannedLayer& layer) {
  const Shape& in = layer.inputs.front().shape;
  const auto inputs = static_cast<double>(in.n) * static_cast<double>(in.Features());
  const auto outputs =
      static_cast<double>(layer.output.n) * static_cast<double>(layer.output.Features());
  const auto product = [](const Spatial& window) {
    return static_cast<double>(window[0]) * window[1] * window[2];
  };
  if (const auto* convolution = std::get_if<Convolution>(&layer.op)) {
    return 2 * outputs * in.c / convolution->groups * product(convolution->window);
  }
  if (const auto* transposed = std::get_if<TransposedConvolution>(&layer.op)) {
    return 2 * inputs * transposed->filters / transposed->groups * product(transposed->window);
  }
  if (std::holds_alternative<FullyConnected>(layer.op)) {
    return 2 * outputs * static_cast<double>(in.Features());
  }
  if (std::holds_alternative<Linear>(layer.op)) return 2 * outputs * in.c;
  if (const auto* attention = std::get_if<Attention>(&layer.op)) {
    // The first input holds the queries, each of which has `keys` scores.
    return 2 * (inputs + outputs) * attention->keys;
  }
  if (const auto* opaque = std::get_if<Opaque>(&layer.op)) return opaque->operations * in.n;
  return 0;
}

double InnerElements(const PlannedLayer& layer) {
  const auto* attention = std::get_if<Attention>(&layer.op);
  if (attention == nullptr) return 0;
  const double positions = static_cast<double>(layer.output.Features()) / layer.output.c;
  return positions * layer.output.n * attention->heads * attention->keys;
}

}  // namespace ucudnn::planner
