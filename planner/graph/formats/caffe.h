// Networks of Caffe: prototxt in the current syntax (layer) or V1 (layers). Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "planner/graph/formats/imported_graph.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// The network in its own state, or else in the training phase; FORMAT.md says what is read, left
// out and refused. `file` is the name errors show; they name the layer, or the line of what is no
// prototxt. `tensors`, where asked for, says where the graph has the blobs of the file.
Result<Graph> ImportCaffe(std::string_view text, const std::string& file,
                          const ImportOptions& options = {}, ImportedTensors* tensors = nullptr);

}  // namespace ucudnn::planner
