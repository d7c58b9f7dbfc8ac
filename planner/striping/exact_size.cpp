#include "planner/striping/exact_size.h"

#include <algorithm>
#include <limits>

#include "planner/graph/shapes.h"
#include "planner/striping/judgement.h"

namespace ucudnn::planner {
namespace {

// At most this many rows are added for each part. That suffices if the strides of all layers
// multiply to at most this number.
constexpr int kMostStride = 256;

constexpr std::array<int SpatialGrid::*, kMaxSpatial> kPartsAlong = {
    &SpatialGrid::d, &SpatialGrid::h, &SpatialGrid::w};

struct Outcome {
  bool is_exact = true;    // no operator is refused
  bool as_it_is = true;    // no operator is refused or needs convert
  bool never = false;      // ucudnn.spatial.convert fails for some operator at every size
  bool never_own = false;  // some operator's own call fails at every size
};

// Judges the operators. If `as_it_is` is true, stops at the first operator that needs convert or is
// refused; if false, at the first that is refused; if empty, judges all operators.
Outcome Try(const Graph& graph, const SpatialGrid& grid, int multiple,
            std::optional<bool> as_it_is) {
  Outcome outcome;
  std::vector<Judgement> made;
  made.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    std::vector<Placement> inputs;
    std::vector<Shape> shapes;
    for (const NodeId input : node.inputs) {
      inputs.push_back(made[static_cast<size_t>(input)].output);
      shapes.push_back(inputs.back().shape);
    }
    const Result<Shape> shape = OutputShape(node.op, shapes, 1);
    if (!shape.ok()) return {false, false, false, false};
    made.push_back(Judge(node.op, inputs, *shape, GridOfNode(graph, node, grid), multiple));
    const Judgement& judgement = made.back();
    if (judgement.verdict == Verdict::kRefused) outcome.is_exact = outcome.as_it_is = false;
    if (judgement.verdict == Verdict::kConvert) outcome.as_it_is = false;
    outcome.never = outcome.never || judgement.never_converted;
    outcome.never_own = outcome.never_own || judgement.never_as_it_is;
    if (as_it_is && (*as_it_is ? !outcome.as_it_is : !outcome.is_exact)) return outcome;
  }
  return outcome;
}

// Returns the smallest extent along `axis`, not below the present one, that suits the grid if only
// this axis is cut. The extent must suit a program's own calls if `as_it_is`; otherwise it must
// suit ucudnn.spatial.convert.
std::optional<int32_t> NextExtent(Graph graph, const SpatialGrid& grid, int multiple, size_t axis,
                                  bool as_it_is) {
  SpatialGrid along;
  along.*kPartsAlong[axis] = grid.*kPartsAlong[axis];
  int32_t first = 0;
  for (const Node& node : graph.nodes) {
    if (const auto* input = std::get_if<Input>(&node.op)) first = input->extents[axis];
  }
  const int64_t most =
      std::min<int64_t>(int64_t{first} + int64_t{kMostStride} * grid.*kPartsAlong[axis],
                        std::numeric_limits<int32_t>::max());
  const int step = multiple > 1 ? multiple : grid.*kPartsAlong[axis];
  for (int64_t extent = CeilDivide(first, step) * step; extent <= most; extent += step) {
    Spatial extents = {0, 0, 0};
    extents[axis] = static_cast<int32_t>(extent);
    if (!SetInputExtents(graph, extents).ok()) return std::nullopt;
    const Outcome outcome = Try(graph, along, multiple, as_it_is);
    if (as_it_is ? outcome.as_it_is : outcome.is_exact) return extents[axis];
  }
  return std::nullopt;
}

std::vector<std::string> OtherWeights(const Graph& before, const Graph& after) {
  std::vector<std::string> names;
  const auto old_shapes = InferShapes(before, 1), new_shapes = InferShapes(after, 1);
  if (!old_shapes.ok() || !new_shapes.ok()) return names;
  for (const Node& node : before.nodes) {
    if (!std::holds_alternative<FullyConnected>(node.op)) continue;
    const auto input = static_cast<size_t>(node.inputs.front());
    if ((*old_shapes)[input].Features() != (*new_shapes)[input].Features()) {
      names.push_back(node.name);
    }
  }
  return names;
}

int64_t Positions(const Shape& shape) {
  return int64_t{shape.extents[0]} * shape.extents[1] * shape.extents[2];
}

// Adapts Opaque operators and attentions to new extents of the inputs. An Opaque operator whose
// output had the extents of its input gets the input's new extents. An attention that had one key
// for each position of its keys' tensor still has one. `before` are the shapes at the old size.
void FollowExtents(Graph& graph, const std::vector<Shape>& before) {
  std::vector<Shape> now;
  for (Node& node : graph.nodes) {
    std::vector<Shape> inputs;
    for (const NodeId input : node.inputs) inputs.push_back(now[static_cast<size_t>(input)]);
    if (auto* const opaque = std::get_if<Opaque>(&node.op)) {
      const Shape& input = before[static_cast<size_t>(node.inputs.front())];
      if (opaque->extents == input.extents) opaque->extents = inputs.front().extents;
    } else if (auto* const attention = std::get_if<Attention>(&node.op)) {
      const Shape& keys = before[static_cast<size_t>(node.inputs[1])];
      if (attention->keys == Positions(keys)) {
        attention->keys = static_cast<int32_t>(
            std::min<int64_t>(Positions(inputs[1]), std::numeric_limits<int32_t>::max()));
      }
    }
    const Result<Shape> shape = OutputShape(node.op, inputs, 1);
    if (!shape.ok()) return;  // InferShapes() reports the fault to the caller
    now.push_back(*shape);
  }
}

}  // namespace

Status SetInputExtents(Graph& graph, const Spatial& extents) {
  const Spatial* first = nullptr;
  std::vector<Input*> inputs;
  for (Node& node : graph.nodes) {
    auto* const input = std::get_if<Input>(&node.op);
    if (input == nullptr) continue;
    for (size_t axis = 0; first != nullptr && axis < kMaxSpatial; ++axis) {
      if (extents[axis] == 0 || (*first)[axis] == input->extents[axis]) continue;
      return Status::Error("its inputs have different sizes, of " + std::to_string((*first)[axis]) +
                           " and of " + std::to_string(input->extents[axis]));
    }
    first = &input->extents;
    inputs.push_back(input);
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Shape> before, InferShapes(graph, 1));
  for (Input* const input : inputs) {
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      if (extents[axis] != 0) input->extents[axis] = extents[axis];
    }
  }
  FollowExtents(graph, before);
  return Status::Ok();
}

std::optional<ExactSize> NextExactSize(const Graph& graph, const SpatialGrid& grid, int multiple) {
  SpatialGrid group = grid;
  group.n = 1;
  const Outcome now = Try(graph, group, multiple, std::nullopt);
  for (const bool as_it_is : {true, false}) {
    if (as_it_is ? now.never_own : now.never) continue;
    Spatial extents = {0, 0, 0};
    bool found = true;
    for (size_t axis = 0; axis < kMaxSpatial && found; ++axis) {
      if (group.*kPartsAlong[axis] == 1) continue;
      const std::optional<int32_t> extent = NextExtent(graph, group, multiple, axis, as_it_is);
      found = extent.has_value();
      if (found) extents[axis] = *extent;
    }
    Graph larger = graph;
    if (!found || !SetInputExtents(larger, extents).ok()) continue;
    const Outcome then = Try(larger, group, multiple, std::nullopt);
    if (!(as_it_is ? then.as_it_is : then.is_exact)) continue;
    ExactSize size;
    for (const Node& node : larger.nodes) {
      if (const auto* input = std::get_if<Input>(&node.op)) size.extents = input->extents;
    }
    size.as_it_is = as_it_is;
    size.other_weights = OtherWeights(graph, larger);
    return size;
  }
  return std::nullopt;
}

std::optional<int> NextExactMultiple(const Graph& graph, const SpatialGrid& grid) {
  SpatialGrid group = grid;
  group.n = 1;
  for (const bool as_it_is : {true, false}) {
    for (int multiple = 2; multiple <= kMostStride; ++multiple) {
      const Outcome outcome = Try(graph, group, multiple, as_it_is);
      if (as_it_is ? outcome.as_it_is : outcome.is_exact) return multiple;
    }
  }
  return std::nullopt;
}

}  // namespace ucudnn::planner
