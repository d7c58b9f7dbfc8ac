#include "planner/multigrid/device/step_shape.h"

#include <algorithm>

#include "base/text.h"
#include "planner/multigrid/host/layers.h"

namespace ucudnn::multigrid {
namespace {

using planner::Activation;
using planner::ActivationKind;
using planner::Convolution;
using planner::FullyConnected;
using planner::Node;
using planner::Shape;
using Extents = StepLayer::Extents;
using Kind = StepLayer::Kind;

Extents ExtentsOf(const Shape& shape) { return {shape.c, shape.extents[1], shape.extents[2]}; }
Extents Flat(const Shape& shape) { return {static_cast<int>(shape.Features()), 1, 1}; }

// Returns the extents of the last two axes, rows and columns.
std::array<int, 2> InPlane(const Spatial& spatial) { return {spatial[1], spatial[2]}; }

bool IsView(const Node& node) {
  return std::holds_alternative<planner::Flatten>(node.op) ||
         std::holds_alternative<planner::Reshape>(node.op);
}

Status CannotRun(const Node& node) {
  return Status::Error(Quoted(node.name) +
                       " is in a step that devices do not run: convolutions of two dimensions that "
                       "are padded alike at both ends, fully connected layers, frozen "
                       "normalisations, scales, relu and tanh are expected; --backend cpu64 runs "
                       "others");
}

Result<StepLayer> LayerOf(const Node& node, const Shape& input, const Shape& output) {
  StepLayer layer = {.input = ExtentsOf(input), .output = ExtentsOf(output)};
  const WeightCounts counts = WeightCountsOf({node.op, input, output});
  layer.weights = counts.weights;
  layer.bias = counts.bias;
  layer.is_trained = IsTrained(node.op);
  if (const auto* op = std::get_if<Convolution>(&node.op)) {
    if (input.spatial_rank != 2 || op->extra_pad != Spatial{0, 0, 0}) return CannotRun(node);
    layer.kind = Kind::kConvolution;
    layer.window = InPlane(op->window);
    layer.stride = InPlane(op->stride);
    layer.pad = InPlane(op->pad);
    layer.dilation = InPlane(op->dilation);
    layer.groups = op->groups;
    return layer;
  }
  if (std::holds_alternative<FullyConnected>(node.op)) {
    layer.kind = Kind::kConvolution;
    layer.input = Flat(input);
    layer.output = Flat(output);
    return layer;
  }
  const bool is_scale = std::holds_alternative<planner::Scale>(node.op) ||
                        std::holds_alternative<planner::BatchNormalization>(node.op);
  const auto* activation = std::get_if<Activation>(&node.op);
  const bool is_tanh = activation != nullptr && activation->kind == ActivationKind::kTanh;
  const bool is_relu = activation != nullptr && activation->kind == ActivationKind::kRelu;
  if (!is_scale && !is_tanh && !is_relu) return CannotRun(node);
  layer.kind = is_scale ? Kind::kScale : is_tanh ? Kind::kTanh : Kind::kRelu;
  return layer;
}

Result<StepShape> ShapeOf(const ResidualChain& chain, const Stage& stage,
                          const ResidualStep& step) {
  StepShape shape = {.state = ExtentsOf(stage.shape), .layers = {}};
  Shape input = stage.shape;
  for (size_t i = 0; i < step.transformation.size(); ++i) {
    const planner::NodeId id = step.transformation[i];
    const Node& node = chain.graph.nodes[id];
    const Shape& output = chain.shapes[id];
    if (!IsView(node)) {
      if (input.spatial_rank > 2) return CannotRun(node);
      UCUDNN_ASSIGN_OR_RETURN(StepLayer layer, LayerOf(node, input, output));
      layer.node = static_cast<int>(i);
      shape.layers.push_back(layer);
    }
    input = output;
  }
  if (shape.layers.empty()) return CannotRun(chain.graph.nodes[step.sum]);
  return shape;
}

}  // namespace

int64_t StepShape::LargestValue() const {
  int64_t largest = StateSize();
  for (const StepLayer& layer : layers) {
    largest = std::max({largest, layer.input.Count(), layer.output.Count()});
  }
  return largest;
}

Result<StageShapes> ShapesOf(const ResidualChain& chain, const Stage& stage,
                             std::span<const int> used) {
  StageShapes shapes;
  for (size_t number = 0; number < stage.steps.size(); ++number) {
    if (!used.empty() && !std::binary_search(used.begin(), used.end(), static_cast<int>(number))) {
      shapes.kind_of.push_back(-1);
      shapes.number_of.push_back(-1);
      continue;
    }
    UCUDNN_ASSIGN_OR_RETURN(StepShape shape, ShapeOf(chain, stage, stage.steps[number]));
    const auto known = std::find(shapes.kinds.begin(), shapes.kinds.end(), shape);
    const auto kind = static_cast<size_t>(known - shapes.kinds.begin());
    if (known == shapes.kinds.end()) {
      shapes.kinds.push_back(std::move(shape));
      shapes.steps.emplace_back();
    }
    shapes.kind_of.push_back(static_cast<int>(kind));
    shapes.number_of.push_back(static_cast<int>(shapes.steps[kind].size()));
    shapes.steps[kind].push_back(static_cast<int>(number));
  }
  return shapes;
}

}  // namespace ucudnn::multigrid
