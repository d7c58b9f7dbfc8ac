// Lists the convolutions of a network for the tools that measure and plan them. Pure functions.
#pragma once

#include <vector>

#include "base/status.h"
#include "convolution/layer.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Lists every convolution node in graph order, once for each of `operations`, with the arguments
// that cuDNN gets. The mini-batch has `batch` images, in packed tensors of `type` and `layout`. A
// convolution with different pads at the two ends of an axis is listed with an image that is
// already padded. A transposed convolution is listed as the data gradient of the convolution that
// it transposes, and its backward_data as the forward operation of that convolution.
Result<std::vector<Layer>> ConvolutionLayers(const Graph& graph, int batch,
                                             const std::vector<Operation>& operations,
                                             DataType type = DataType::kFloat,
                                             Layout layout = Layout::kNchw);

}  // namespace ucudnn::planner
