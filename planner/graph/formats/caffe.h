// Reads networks of Caffe: prototxt in the current syntax (layer) or V1 (layers). Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "planner/graph/formats/imported_graph.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Reads the layers that run in the state (phase, level and stages) that the file gives, or in the
// training phase if the file gives none. planner/graph/FORMAT.md says what is read, left out and
// refused. Errors show the file as `file` and name the layer, or the line that is no prototxt.
// `tensors`, if not null, receives for each blob of the file its node and axes in the graph.
Result<Graph> ImportCaffe(std::string_view text, const std::string& file,
                          const ImportOptions& options = {}, ImportedTensors* tensors = nullptr);

}  // namespace ucudnn::planner
