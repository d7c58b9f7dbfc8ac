#include "planner/graph/shapes.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "base/text.h"

namespace ucudnn::planner {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();

using Count = __int128;

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

std::string Extents(const Spatial& extents, int rank) {
  std::string text;
  for (int axis = kMaxSpatial - rank; axis < kMaxSpatial; ++axis) {
    text += (text.empty() ? "" : "x") + std::to_string(extents[axis]);
  }
  return text;
}

// A window that slides over a padded image in a convolution or a pooling.
struct Window {
  Spatial extents;
  Spatial stride;
  Spatial pad;
  Spatial dilation;
  Spatial extra_pad;  // pixels added to `pad` at the end
  bool round_up = false;
};

Status NoWindow(const Window& window) {
  Spatial end_pad = {};
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t end = int64_t{window.pad[axis]} + window.extra_pad[axis];
    end_pad[axis] = static_cast<int32_t>(std::clamp<int64_t>(end, -kLargest, kLargest));
  }
  return Status::Error(
      "window " + Extents(window.extents, kMaxSpatial) + ", stride " +
      Extents(window.stride, kMaxSpatial) + ", pad " + Extents(window.pad, kMaxSpatial) +
      (end_pad == window.pad ? "" : " and " + Extents(end_pad, kMaxSpatial)) + ", dilation " +
      Extents(window.dilation, kMaxSpatial) + "; expected positive numbers and a pad of 0 or more");
}

// Computes the output's extents, in 64 bits because the values of an imported graph are unbounded.
Result<Spatial> Slide(const Window& window, const Shape& input) {
  Spatial out;
  for (int axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t x = input.extents[axis];
    const int64_t w = window.extents[axis];
    const int64_t stride = window.stride[axis];
    const int64_t pad = window.pad[axis];
    const int64_t dilation = window.dilation[axis];
    const int64_t end_pad = pad + window.extra_pad[axis];
    if (w < 1 || stride < 1 || pad < 0 || end_pad < 0 || dilation < 1) return NoWindow(window);
    const int64_t room = x + pad + end_pad - ((w - 1) * dilation + 1);
    if (room < 0 || room + 1 > kLargest) {
      return Status::Error("a window of " + std::to_string((w - 1) * dilation + 1) +
                           " over an image of " + std::to_string(x) + " padded by " +
                           std::to_string(pad) +
                           (end_pad == pad ? "" : " and " + std::to_string(end_pad)) +
                           "; expected one that fits inside");
    }
    int64_t steps = room / stride;
    if (window.round_up && room % stride != 0 && (steps + 1) * stride < x + pad) ++steps;
    out[axis] = static_cast<int32_t>(1 + steps);
  }
  return out;
}

// The inverse of Slide(): finds the extents that a convolution with `window` maps to the extents of
// `input`, and returns their sum with window.extra_pad.
Result<Spatial> SlideBack(const Window& window, const Shape& input) {
  Spatial out;
  for (int axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t w = window.extents[axis];
    const int64_t stride = window.stride[axis];
    const int64_t pad = window.pad[axis];
    const int64_t dilation = window.dilation[axis];
    if (w < 1 || stride < 1 || pad < 0 || dilation < 1) {
      return NoWindow({window.extents, window.stride, window.pad, window.dilation, {}});
    }
    const __int128 extent = __int128{input.extents[axis] - int64_t{1}} * stride +
                            (w - 1) * dilation + 1 - 2 * pad + window.extra_pad[axis];
    if (extent < 1 || extent > kLargest) {
      return Status::Error("an output of " + std::string(extent < 1 ? "no" : "more than 2^31 - 1") +
                           " pixels along an axis; expected 1 to 2147483647");
    }
    out[axis] = static_cast<int32_t>(extent);
  }
  return out;
}

Result<Spatial> Scaled(const Spatial& extents, const Spatial& factor) {
  Spatial out;
  for (int axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t extent = int64_t{extents[axis]} * factor[axis];
    if (factor[axis] < 1 || extent > kLargest) {
      return Status::Error("upsampling by " + Extents(factor, kMaxSpatial) +
                           "; expected positive factors and extents to 2147483647");
    }
    out[axis] = static_cast<int32_t>(extent);
  }
  return out;
}

Result<Shape> Padded(const Shape& input, const Padding& padding) {
  Shape out = input;
  for (int axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t extent =
        int64_t{input.extents[axis]} + padding.before[axis] + padding.after[axis];
    if (extent < 1 || extent > kLargest) {
      return Status::Error("padding by " + Extents(padding.before, kMaxSpatial) + " and " +
                           Extents(padding.after, kMaxSpatial) + "; expected 1 to 2147483647 " +
                           "pixels along each axis");
    }
    out.extents[axis] = static_cast<int32_t>(extent);
  }
  const int64_t channels = int64_t{input.c} + padding.channels_before + padding.channels_after;
  if (channels < 1 || channels > kLargest) {
    return Status::Error("padding by " + std::to_string(padding.channels_before) + " and " +
                         std::to_string(padding.channels_after) +
                         " channels; expected 1 to 2147483647 of them");
  }
  out.c = static_cast<int32_t>(channels);
  return out;
}

// Returns the output shape of an attention: the values' channels at the queries' positions.
Result<Shape> Attended(const Attention& attention, const Shape& queries, const Shape& keys,
                       const Shape& values) {
  const int32_t heads = attention.heads;
  bool fits = heads >= 1 && attention.keys >= 1 && queries.c == keys.c && queries.c % heads == 0 &&
              values.c % heads == 0 && keys.extents == values.extents;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const int32_t window = attention.window[axis];
    fits = fits && window >= 0 &&
           (window == 0 ||
            (queries.extents[axis] == keys.extents[axis] && queries.extents[axis] % window == 0));
  }
  if (!fits) {
    return Status::Error("an attention of " + std::to_string(heads) + " heads over " +
                         Describe(queries) + ", " + Describe(keys) + " and " + Describe(values) +
                         "; expected as many channels of queries and keys, heads that divide "
                         "them, and windows that tile the positions");
  }
  Shape out = queries;
  out.c = values.c;
  return out;
}

Result<Shape> OpaqueShape(const Opaque& op, const Shape& input) {
  if (op.channel_parts < 1 || op.channels % op.channel_parts != 0 || !(op.operations >= 0) ||
      op.operations > 1e30) {
    return Status::Error(std::to_string(op.channel_parts) + " parts of " +
                         std::to_string(op.channels) + " channels and " +
                         std::to_string(op.operations) +
                         " operations; expected a divisor and 0 or more");
  }
  return Shape{input.n, op.channels, op.extents, op.spatial_rank};
}

Status CheckGroups(int32_t groups, int32_t channels, int32_t filters) {
  if (groups >= 1 && channels % groups == 0 && filters % groups == 0) return Status::Ok();
  return Status::Error(std::to_string(groups) + " groups; expected a divisor of " +
                       std::to_string(channels) + " channels and " + std::to_string(filters) +
                       " filters");
}

Result<Shape> Flat(const Shape& input, int64_t features) {
  if (features < 1 || features > kLargest) {
    return Status::Error(std::to_string(features) + " features; expected 1 to 2147483647");
  }
  Shape shape;
  shape.n = input.n;
  shape.c = static_cast<int32_t>(features);
  return shape;
}

Result<Shape> Reshaped(const Shape& input, const Reshape& reshape) {
  const Shape shape{input.n, reshape.channels, reshape.extents, reshape.spatial_rank};
  UCUDNN_RETURN_IF_ERROR(CheckShape(shape));
  if (shape.Features() != input.Features()) {
    return Status::Error("reshapes " + Describe(input) + " to " + Describe(shape) +
                         "; expected as many numbers");
  }
  return shape;
}

Result<Shape> Sum(const std::vector<Shape>& inputs) {
  for (const Shape& input : inputs) {
    if (!(input == inputs.front())) {
      return Status::Error("adds " + Describe(inputs.front()) + " and " + Describe(input) +
                           "; expected equal shapes");
    }
  }
  return inputs.front();
}

Result<Shape> Product(const Shape& a, const Shape& b) {
  const bool gate = b.extents == Spatial{1, 1, 1};
  const bool gated = a.extents == Spatial{1, 1, 1};
  if (a.c != b.c || !(a.extents == b.extents || gate || gated)) {
    return Status::Error("multiplies " + Describe(a) + " and " + Describe(b) +
                         "; expected equal shapes, or one of a pixel");
  }
  return gate ? a : b;
}

// Returns a reference to the extent along which a Concat adds up its inputs.
int32_t& JoinedExtent(Shape& shape, ConcatAxis axis) {
  return axis == ConcatAxis::kChannels ? shape.c : shape.extents[static_cast<size_t>(axis) - 1];
}

Result<Shape> Joined(const std::vector<Shape>& inputs, ConcatAxis axis) {
  Shape out = inputs.front();
  int64_t extent = 0;
  for (const Shape& input : inputs) {
    Shape rest = input;
    rest.spatial_rank = out.spatial_rank;
    extent += JoinedExtent(rest, axis);
    JoinedExtent(rest, axis) = JoinedExtent(out, axis);
    if (!(rest == out)) {
      return Status::Error("joins " + Describe(out) + " and " + Describe(input) +
                           "; expected equal extents");
    }
  }
  if (extent > kLargest) return Status::Error("joins more than 2147483647 elements of an axis");
  JoinedExtent(out, axis) = static_cast<int32_t>(extent);
  return out;
}

Result<Shape> UncheckedShape(const Operator& op, const std::vector<Shape>& inputs, int batch) {
  const Shape first = inputs.empty() ? Shape() : inputs.front();
  return std::visit(
      Overloaded{
          [&](const Input& input) -> Result<Shape> {
            return Shape{batch, input.channels, input.extents, input.spatial_rank};
          },
          [&](const Convolution& convolution) -> Result<Shape> {
            UCUDNN_RETURN_IF_ERROR(CheckGroups(convolution.groups, first.c, convolution.filters));
            Shape out = first;
            out.c = convolution.filters;
            UCUDNN_ASSIGN_OR_RETURN(out.extents,
                                    Slide({convolution.window, convolution.stride, convolution.pad,
                                           convolution.dilation, convolution.extra_pad},
                                          first));
            return out;
          },
          [&](const TransposedConvolution& layer) -> Result<Shape> {
            UCUDNN_RETURN_IF_ERROR(CheckGroups(layer.groups, first.c, layer.filters));
            Shape out = first;
            out.c = layer.filters;
            UCUDNN_ASSIGN_OR_RETURN(out.extents, SlideBack({layer.window, layer.stride, layer.pad,
                                                            layer.dilation, layer.extra_extent},
                                                           first));
            return out;
          },
          [&](const Pooling& pooling) -> Result<Shape> {
            Shape out = first;
            UCUDNN_ASSIGN_OR_RETURN(out.extents, Slide({pooling.window,
                                                        pooling.stride,
                                                        pooling.pad,
                                                        {1, 1, 1},
                                                        pooling.extra_pad,
                                                        pooling.round_up},
                                                       first));
            return out;
          },
          [&](const GlobalPooling&) -> Result<Shape> {
            Shape out = first;
            out.extents = {1, 1, 1};
            return out;
          },
          [&](const FullyConnected& layer) { return Flat(first, layer.outputs); },
          [&](const Flatten&) { return Flat(first, first.Features()); },
          [&](const Reshape& reshape) { return Reshaped(first, reshape); },
          [&](const Upsampling& upsampling) -> Result<Shape> {
            Shape out = first;
            UCUDNN_ASSIGN_OR_RETURN(out.extents, Scaled(first.extents, upsampling.factor));
            if (upsampling.reach < 0 || upsampling.reach > kLargest / 2) {
              return Status::Error("a reach of " + std::to_string(upsampling.reach) +
                                   "; expected 0 or more");
            }
            return out;
          },
          [&](const Padding& padding) { return Padded(first, padding); },
          [&](const Linear& layer) -> Result<Shape> {
            Shape out = first;
            out.c = layer.outputs;
            return out;
          },
          [&](const Attention& attention) {
            return Attended(attention, inputs[0], inputs[1], inputs[2]);
          },
          [&](const Opaque& op) { return OpaqueShape(op, first); },
          [&](const GroupNormalization& norm) -> Result<Shape> {
            UCUDNN_RETURN_IF_ERROR(CheckGroups(norm.groups, first.c, first.c));
            return first;
          },
          [&](const Multiply&) { return Product(inputs[0], inputs[1]); },
          [&](const Add&) { return Sum(inputs); },
          [&](const Concat& concat) { return Joined(inputs, concat.axis); },
          [&](const auto&) -> Result<Shape> { return first; }},  // other operators keep the shape
      op);
}

// Returns the product, but at most kMostParameters + 1, because the factors of an imported graph
// are unchecked.
Count Times(Count a, int64_t b) { return std::min(a * b, Count{kMostParameters + 1}); }

template <typename AnyConvolution>
Count FilterWeights(const AnyConvolution& layer, int32_t channels) {
  Count weights = Times(channels / layer.groups, layer.filters);
  for (const int32_t extent : layer.window) weights = Times(weights, extent);
  return weights;
}

Count CountParameters(const Operator& op, const Shape& input) {
  const auto times_channels = [&](bool scale, bool shift) {
    return Count{input.c} * ((scale ? 1 : 0) + (shift ? 1 : 0));
  };
  return std::visit(
      Overloaded{[&](const Convolution& layer) {
                   return FilterWeights(layer, input.c) + (layer.bias ? layer.filters : 0);
                 },
                 [&](const TransposedConvolution& layer) {
                   return FilterWeights(layer, input.c) + (layer.bias ? layer.filters : 0);
                 },
                 [&](const FullyConnected& layer) {
                   return Times(layer.outputs, input.Features()) + (layer.bias ? layer.outputs : 0);
                 },
                 [&](const Linear& layer) {
                   return Times(layer.outputs, input.c) + (layer.bias ? layer.outputs : 0);
                 },
                 [&](const BatchNormalization& layer) {
                   return times_channels(layer.scale_and_shift, layer.scale_and_shift);
                 },
                 [&](const GroupNormalization& layer) {
                   return times_channels(layer.scale_and_shift, layer.scale_and_shift);
                 },
                 [&](const Scale& layer) { return times_channels(layer.scale, layer.shift); },
                 [](const auto&) { return Count{0}; }},
      op);
}

}  // namespace

int64_t Shape::Features() const { return int64_t{c} * extents[0] * extents[1] * extents[2]; }

std::string Describe(const Shape& shape) {
  return std::to_string(shape.n) + "x" + std::to_string(shape.c) + "x" +
         Extents(shape.extents, shape.spatial_rank);
}

Status CheckShape(const Shape& shape) {
  bool fits = shape.c >= 1 && (shape.spatial_rank == 2 || shape.spatial_rank == 3) &&
              (shape.spatial_rank == 3 || shape.extents[0] == 1);
  constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max();
  Count bytes = 8 * Count{shape.c};  // assumes elements of 8 bytes, the largest
  for (const int32_t extent : {shape.extents[0], shape.extents[1], shape.extents[2], shape.n}) {
    fits = fits && extent >= 1;
    bytes = std::min(bytes, Count{kMostBytes} + 1) * extent;
  }
  if (!fits || bytes > kMostBytes) {
    return Status::Error("shape " + Describe(shape) +
                         "; expected positive extents whose product "
                         "fits 63 bits of bytes");
  }
  return Status::Ok();
}

Result<Shape> OutputShape(const Operator& op, const std::vector<Shape>& inputs, int batch) {
  UCUDNN_ASSIGN_OR_RETURN(Shape shape, UncheckedShape(op, inputs, batch));
  if (!inputs.empty() && shape.extents[0] > 1) shape.spatial_rank = 3;
  UCUDNN_RETURN_IF_ERROR(CheckShape(shape));
  if (!inputs.empty() && CountParameters(op, inputs.front()) > kMostParameters) {
    return Status::Error("more parameters than expected of any node (2^48)");
  }
  return shape;
}

Result<std::vector<Shape>> InferShapes(const Graph& graph, int batch) {
  if (batch < 1) {
    return Status::Error(graph.name + ": batch " + std::to_string(batch) + "; expected 1 or more");
  }
  std::vector<Shape> shapes;
  for (const Node& node : graph.nodes) {
    std::vector<Shape> inputs;
    for (const NodeId input : node.inputs) inputs.push_back(shapes[static_cast<size_t>(input)]);
    const Result<Shape> shape = OutputShape(node.op, inputs, batch);
    if (!shape.ok()) {
      return Status::Error(graph.name + ": node " + Quoted(node.name) + ": " + shape.message());
    }
    shapes.push_back(*shape);
  }
  return shapes;
}

ParameterCounts ParametersOf(const Node& node, const Shape& input) {
  if (node.parameters.empty()) return {static_cast<int64_t>(CountParameters(node.op, input)), 0};
  ParameterCounts counts;
  for (const Parameter& parameter : node.parameters) {
    (parameter.trained ? counts.trained : counts.fixed) += parameter.elements;
  }
  return counts;
}

std::vector<ParameterCounts> OwnParameters(const Graph& graph, const std::vector<Shape>& shapes) {
  std::vector<ParameterCounts> own;
  std::unordered_set<int> read;
  for (const Node& node : graph.nodes) {
    if (node.inputs.empty()) {
      own.emplace_back();
      continue;
    }
    own.push_back(ParametersOf(node, shapes[static_cast<size_t>(node.inputs.front())]));
    for (const Parameter& parameter : node.parameters) {
      if (parameter.tensor < 0 || read.insert(parameter.tensor).second) continue;
      (parameter.trained ? own.back().trained : own.back().fixed) -= parameter.elements;
    }
  }
  return own;
}

std::vector<bool> HaveGradients(const Graph& graph, const std::vector<Shape>& shapes) {
  std::vector<bool> have;
  for (const Node& node : graph.nodes) {
    const std::vector<NodeId>& inputs = node.inputs;
    const bool trains = !inputs.empty() &&
                        ParametersOf(node, shapes[static_cast<size_t>(inputs.front())]).trained > 0;
    have.push_back(trains || std::any_of(inputs.begin(), inputs.end(), [&](NodeId input) {
                     return have[static_cast<size_t>(input)];
                   }));
  }
  return have;
}

Result<int64_t> ParameterCount(const Graph& graph) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(graph, 1));
  int64_t count = 0;
  for (const ParameterCounts& own : OwnParameters(graph, shapes)) {
    count += own.trained;
    if (count > std::numeric_limits<int64_t>::max() - 4 * kMostParameters) {
      return Status::Error(graph.name + ": more parameters than 63 bits count");
    }
  }
  return count;
}

}  // namespace ucudnn::planner
