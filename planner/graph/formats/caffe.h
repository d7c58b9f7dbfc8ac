// Networks of Caffe: prototxt in the current syntax (layer) or V1 (layers). Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "planner/graph/formats/imported_graph.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// The network of the training phase. Labels, losses but the softmax's own, and accuracies are left
// out; BatchNorm and the Scale behind it are one normalisation. Images come from an Input layer,
// input_shape, input_dim, or the crop of a data layer (then with three channels). `file` is the
// name errors show; they name the layer, or the line of what is no prototxt.
Result<Graph> ImportCaffe(std::string_view text, const std::string& file,
                          const ImportOptions& options = {});

}  // namespace ucudnn::planner
