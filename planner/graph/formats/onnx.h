// Networks in ONNX, as torch.onnx and tf2onnx write them. Pure functions.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/graph/formats/imported_graph.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// `model` is the file's content. Filters give only their shapes (their values may lie elsewhere);
// the batch is whatever it is, every other extent of the input must be a number. Tensors whose
// channels are last, as TensorFlow's, are followed through their transpositions. `file` is the name
// errors show; they name the node.
Result<Graph> ImportOnnx(const std::string& model, const std::string& file,
                         const ImportOptions& options = {});

}  // namespace ucudnn::planner
