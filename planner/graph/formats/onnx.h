// Reads networks in ONNX, as torch.onnx and tf2onnx write them. The function keeps no state; it may
// read files in ImportOptions::folder.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/graph/formats/imported_graph.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Reads `model`, the content of a file. Only the shapes of filters are needed, so the filters'
// values may be in other files. The batch may have any size; every other extent of an input must be
// given. The importer follows tensors through reshapes and transpositions. Errors show the file as
// `file` and name the node. `tensors`, if not null, receives for each tensor of the file its node
// and axes in the graph.
Result<Graph> ImportOnnx(const std::string& model, const std::string& file,
                         const ImportOptions& options = {}, ImportedTensors* tensors = nullptr);

}  // namespace ucudnn::planner
