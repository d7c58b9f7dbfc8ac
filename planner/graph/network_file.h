// Loads networks by name or from files.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/graph/formats/imported_graph.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Loads a built-in network by its name, or a file whose ending gives the format: .onnx, .prototxt
// (Caffe) or .json (ucudnn-net). The network must be connected. The error is one line that names
// the file, or lists the built-in networks.
Result<Graph> LoadNetwork(const std::string& name_or_file, const ImportOptions& options = {});

}  // namespace ucudnn::planner
