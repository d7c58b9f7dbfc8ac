#include "planner/graph/layers.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "base/text.h"
#include "planner/graph/shapes.h"

namespace ucudnn::planner {
namespace {

// A layer's convolution as cuDNN runs it. `image` differs from the layer's own extents if the
// framework must pad or cut the image first. It has 64 bits, because the padding of an imported
// graph is unchecked.
struct Problem {
  ConvolutionProblem problem;
  std::array<int64_t, kMaxSpatial> image = {};
};

template <typename AnyConvolution>
ConvolutionProblem WindowOf(const AnyConvolution& layer) {
  ConvolutionProblem problem;
  problem.groups = layer.groups;
  problem.w = layer.window;
  problem.pad = layer.pad;
  problem.stride = layer.stride;
  problem.dilation = layer.dilation;
  return problem;
}

// cuDNN's legacy API pads both ends equally. Frameworks therefore pad the difference themselves,
// and the convolution reads a larger image.
Problem ProblemOf(const Convolution& layer, const Shape& input) {
  Problem result{WindowOf(layer)};
  result.problem.c = input.c;
  result.problem.k = layer.filters;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t extra = layer.extra_pad[axis];
    result.image[axis] = input.extents[axis] + std::abs(extra);
    result.problem.pad[axis] += std::min(layer.extra_pad[axis], 0);
  }
  return result;
}

// Returns the convolution that `layer` transposes; that convolution maps the layer's output to its
// input. With extra_extent the output may have extents that the convolution never maps to the
// input; then the framework pads or cuts the output.
Problem ProblemOf(const TransposedConvolution& layer, const Shape& input, const Shape& output) {
  Problem result{WindowOf(layer)};
  result.problem.c = layer.filters;
  result.problem.k = input.c;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t extra = layer.extra_extent[axis];
    const bool rounds = extra >= 0 && extra < layer.stride[axis];
    result.image[axis] = output.extents[axis] - (rounds ? 0 : extra);
  }
  return result;
}

// Returns the operation that cuDNN performs when a transposed convolution runs `operation`.
Operation Transposed(Operation operation) {
  switch (operation) {
    case Operation::kForward:
      return Operation::kBackwardData;
    case Operation::kBackwardData:
      return Operation::kForward;
    case Operation::kBackwardFilter:
      break;
  }
  return Operation::kBackwardFilter;
}

}  // namespace

Result<std::vector<Layer>> ConvolutionLayers(const Graph& graph, int batch,
                                             const std::vector<Operation>& operations,
                                             DataType type, Layout layout) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(graph, batch));
  std::vector<Layer> layers;
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    const auto* convolution = std::get_if<Convolution>(&node.op);
    const auto* transposed = std::get_if<TransposedConvolution>(&node.op);
    if (convolution == nullptr && transposed == nullptr) continue;
    const Shape& input = shapes[static_cast<size_t>(node.inputs.front())];
    const auto [window, image] = convolution != nullptr ? ProblemOf(*convolution, input)
                                                        : ProblemOf(*transposed, input, shapes[id]);
    ConvolutionProblem problem = window;
    problem.spatial_rank = input.spatial_rank;
    problem.n = input.n;
    Status fits;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      if (image[axis] < 1 || image[axis] > std::numeric_limits<int32_t>::max()) {
        fits = Status::Error("an image of " + std::to_string(image[axis]) +
                             " pixels along an axis; expected 1 to 2147483647");
      }
      problem.x[axis] = static_cast<int32_t>(image[axis]);
    }
    if (fits.ok()) fits = CheckShape({problem.n, problem.c, problem.x, problem.spatial_rank});
    if (!fits.ok()) {
      return Status::Error(graph.name + ": node " + Quoted(node.name) + ": " + fits.message());
    }
    problem.type = type;
    problem.compute = type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
    problem.layout = layout;
    SetPackedStrides(problem);
    for (const Operation operation : operations) {
      layers.push_back({node.name, problem});
      layers.back().problem.operation = transposed != nullptr ? Transposed(operation) : operation;
    }
  }
  return layers;
}

}  // namespace ucudnn::planner
