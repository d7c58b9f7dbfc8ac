#include "planner/graph/layers.h"

#include "planner/graph/shapes.h"

namespace ucudnn::planner {

Result<std::vector<Layer>> ConvolutionLayers(const Graph& graph, int batch,
                                             const std::vector<Operation>& operations,
                                             DataType type, Layout layout) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(graph, batch));
  std::vector<Layer> layers;
  for (const Node& node : graph.nodes) {
    const auto* convolution = std::get_if<Convolution>(&node.op);
    if (convolution == nullptr) continue;
    const Shape& input = shapes[static_cast<size_t>(node.inputs.front())];
    ConvolutionProblem problem;
    problem.spatial_rank = input.spatial_rank;
    problem.n = input.n;
    problem.c = input.c;
    problem.k = convolution->filters;
    problem.groups = convolution->groups;
    problem.x = input.extents;
    problem.w = convolution->window;
    problem.pad = convolution->pad;
    problem.stride = convolution->stride;
    problem.dilation = convolution->dilation;
    problem.type = type;
    problem.compute = type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
    problem.layout = layout;
    SetPackedStrides(problem);
    for (const Operation operation : operations) {
      layers.push_back({node.name, problem});
      layers.back().problem.operation = operation;
    }
  }
  return layers;
}

}  // namespace ucudnn::planner
