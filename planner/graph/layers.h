// The convolutions of a network, as the tools measure and plan them. Pure functions.
#pragma once

#include <vector>

#include "base/status.h"
#include "convolution/layer.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Every convolution node in graph order, each once per operation (in the order of `operations`),
// for a mini-batch of `batch` images in packed tensors of `type` and `layout`.
Result<std::vector<Layer>> ConvolutionLayers(const Graph& graph, int batch,
                                             const std::vector<Operation>& operations,
                                             DataType type = DataType::kFloat,
                                             Layout layout = Layout::kNchw);

}  // namespace ucudnn::planner
