#include "planner/graph/shapes.h"

#include <limits>

#include "base/text.h"

namespace ucudnn::planner {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostParameters = int64_t{1} << 48;  // of one node, so that sums fit 63 bits

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

// A window that slides over a padded image, as convolutions and pooling have.
struct Window {
  Spatial extents;
  Spatial stride;
  Spatial pad;
  Spatial dilation;
  bool round_up;
};

// The output extents; computed in 64 bits, as nothing bounds the values of an imported graph.
Result<Spatial> Slide(const Window& window, const Shape& input) {
  Spatial out;
  for (int axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t x = input.extents[axis];
    const int64_t w = window.extents[axis];
    const int64_t stride = window.stride[axis];
    const int64_t pad = window.pad[axis];
    const int64_t dilation = window.dilation[axis];
    if (w < 1 || stride < 1 || pad < 0 || dilation < 1) {
      return Status::Error("window " + Extents(window.extents, kMaxSpatial) + ", stride " +
                           Extents(window.stride, kMaxSpatial) + ", pad " +
                           Extents(window.pad, kMaxSpatial) + ", dilation " +
                           Extents(window.dilation, kMaxSpatial) +
                           "; expected positive numbers and a pad of 0 or more");
    }
    const int64_t room = x + 2 * pad - ((w - 1) * dilation + 1);
    if (room < 0 || room + 1 > kLargest) {
      return Status::Error("a window of " + std::to_string((w - 1) * dilation + 1) +
                           " over an image of " + std::to_string(x) + " padded by " +
                           std::to_string(pad) + "; expected one that fits inside");
    }
    int64_t steps = room / stride;
    if (window.round_up && room % stride != 0 && (steps + 1) * stride < x + pad) ++steps;
    out[axis] = static_cast<int32_t>(1 + steps);
  }
  return out;
}

Result<Shape> Checked(Shape shape) {
  bool fits = shape.c >= 1 && (shape.spatial_rank == 2 || shape.spatial_rank == 3) &&
              (shape.spatial_rank == 3 || shape.extents[0] == 1);
  // With the batch and 8 bytes an element the product must fit 63 bits.
  __int128 elements = shape.c;
  for (const int32_t extent : shape.extents) {
    fits = fits && extent >= 1;
    elements *= extent;
  }
  if (!fits || elements * shape.n * 8 > std::numeric_limits<int64_t>::max()) {
    return Status::Error("shape " + Describe(shape) +
                         "; expected positive extents whose product "
                         "fits 63 bits of bytes");
  }
  return shape;
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

Result<Shape> Sum(const std::vector<Shape>& inputs) {
  for (const Shape& input : inputs) {
    if (!(input == inputs.front())) {
      return Status::Error("adds " + Describe(inputs.front()) + " and " + Describe(input) +
                           "; expected equal shapes");
    }
  }
  return inputs.front();
}

Result<Shape> Joined(const std::vector<Shape>& inputs) {
  Shape out = inputs.front();
  int64_t channels = 0;
  for (const Shape& input : inputs) {
    if (input.extents != out.extents || input.spatial_rank != out.spatial_rank) {
      return Status::Error("joins " + Describe(out) + " and " + Describe(input) +
                           "; expected equal extents");
    }
    channels += input.c;
  }
  if (channels > kLargest) return Status::Error("joins more than 2147483647 channels");
  out.c = static_cast<int32_t>(channels);
  return out;
}

Result<Shape> OutputShape(const Operator& op, const std::vector<Shape>& inputs, int batch) {
  const Shape first = inputs.empty() ? Shape() : inputs.front();
  return std::visit(
      Overloaded{
          [&](const Input& input) -> Result<Shape> {
            return Shape{batch, input.channels, input.extents, input.spatial_rank};
          },
          [&](const Convolution& convolution) -> Result<Shape> {
            const int32_t groups = convolution.groups;
            if (groups < 1 || first.c % groups != 0 || convolution.filters % groups != 0) {
              return Status::Error(std::to_string(groups) + " groups; expected a divisor of " +
                                   std::to_string(first.c) + " channels and " +
                                   std::to_string(convolution.filters) + " filters");
            }
            Shape out = first;
            out.c = convolution.filters;
            UCUDNN_ASSIGN_OR_RETURN(out.extents,
                                    Slide({convolution.window, convolution.stride, convolution.pad,
                                           convolution.dilation, false},
                                          first));
            return out;
          },
          [&](const Pooling& pooling) -> Result<Shape> {
            Shape out = first;
            UCUDNN_ASSIGN_OR_RETURN(
                out.extents,
                Slide({pooling.window, pooling.stride, pooling.pad, {1, 1, 1}, pooling.round_up},
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
          [&](const Add&) { return Sum(inputs); }, [&](const Concat&) { return Joined(inputs); },
          [&](const auto&) -> Result<Shape> { return first; }},  // keeps the shape
      op);
}

// In 128 bits: three factors of 31 bits and more come from an imported graph unchecked.
__int128 CountParameters(const Operator& op, const Shape& input) {
  using Count = __int128;
  return std::visit(Overloaded{[&](const Convolution& layer) {
                                 Count weights = input.c / layer.groups;
                                 for (const int32_t extent : layer.window) weights *= extent;
                                 return layer.filters * (weights + (layer.bias ? 1 : 0));
                               },
                               [&](const FullyConnected& layer) {
                                 return Count{layer.outputs} *
                                        (input.Features() + (layer.bias ? 1 : 0));
                               },
                               [&](const BatchNormalization&) { return Count{2} * input.c; },
                               [](const auto&) { return Count{0}; }},
                    op);
}

}  // namespace

int64_t Shape::Features() const { return int64_t{c} * extents[0] * extents[1] * extents[2]; }

std::string Describe(const Shape& shape) {
  return std::to_string(shape.n) + "x" + std::to_string(shape.c) + "x" +
         Extents(shape.extents, shape.spatial_rank);
}

Result<std::vector<Shape>> InferShapes(const Graph& graph, int batch) {
  if (batch < 1) {
    return Status::Error(graph.name + ": batch " + std::to_string(batch) + "; expected 1 or more");
  }
  std::vector<Shape> shapes;
  for (const Node& node : graph.nodes) {
    std::vector<Shape> inputs;
    for (const NodeId input : node.inputs) inputs.push_back(shapes[static_cast<size_t>(input)]);
    Result<Shape> shape = OutputShape(node.op, inputs, batch);
    if (shape.ok()) shape = Checked(*shape);
    if (shape.ok() && !inputs.empty() &&
        CountParameters(node.op, inputs.front()) > kMostParameters) {
      shape = Status::Error("more parameters than expected of any node (2^48)");
    }
    if (!shape.ok()) {
      return Status::Error(graph.name + ": node " + Quoted(node.name) + ": " + shape.message());
    }
    shapes.push_back(*shape);
  }
  return shapes;
}

int64_t ParameterCount(const Node& node, const Shape& input) {
  return static_cast<int64_t>(CountParameters(node.op, input));
}

Result<int64_t> ParameterCount(const Graph& graph) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(graph, 1));
  int64_t count = 0;
  for (const Node& node : graph.nodes) {
    if (node.inputs.empty()) continue;
    count += ParameterCount(node, shapes[static_cast<size_t>(node.inputs.front())]);
  }
  return count;
}

}  // namespace ucudnn::planner
