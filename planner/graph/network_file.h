// Networks by name or from files.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/graph/formats/imported_graph.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// A built-in network; or a file, whose format its ending says: .onnx, .prototxt (Caffe) or .json
// (ucudnn-net). One part is expected. The error is one line that names the file, or lists the
// networks.
Result<Graph> LoadNetwork(const std::string& name_or_file, const ImportOptions& options = {});

}  // namespace ucudnn::planner
