// Networks in ONNX, as torch.onnx and tf2onnx write them. Pure functions.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/graph/formats/imported_graph.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// `model` is the file's content. Filters give only their shapes (their values may lie elsewhere);
// the batch is whatever it is, every other extent of the input must be a number. Tensors are
// followed through reshapes and transpositions. `file` is the name errors show; they name the node.
// `tensors`, where asked for, says where the graph has the tensors of the file.
Result<Graph> ImportOnnx(const std::string& model, const std::string& file,
                         const ImportOptions& options = {}, ImportedTensors* tensors = nullptr);

}  // namespace ucudnn::planner
