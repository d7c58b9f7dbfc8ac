// The convolutions of a network, as the tools measure and plan them. Pure functions.
#pragma once

#include <vector>

#include "base/status.h"
#include "convolution/layer.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Every convolution node in graph order, each once per operation (in the order of `operations`),
// for a mini-batch of `batch` images in packed tensors of `type` and `layout`, as cuDNN is asked
// for it: where a layer pads its two ends differently, of an image padded before; where it is
// transposed, as the gradient (of backward_data the forward) of the convolution it transposes.
Result<std::vector<Layer>> ConvolutionLayers(const Graph& graph, int batch,
                                             const std::vector<Operation>& operations,
                                             DataType type = DataType::kFloat,
                                             Layout layout = Layout::kNchw);

}  // namespace ucudnn::planner
