// Reads and writes networks as JSON (format `ucudnn-net`, described in planner/graph/FORMAT.md).
// Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Errors show the file as `file` and name the node, the member, its value and what was expected.
Result<Graph> ParseNetJson(std::string_view text, const std::string& file);

// Writes one node per line. ParseNetJson() of the text returns an equal graph if its names are
// UTF-8 and its numbers finite.
std::string WriteNetJson(const Graph& graph);

}  // namespace ucudnn::planner
