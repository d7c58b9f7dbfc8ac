// Reads and writes networks as JSON, "ucudnn-net": FORMAT.md beside this file. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Errors show the file as `file` and name the node, the member, its value and what was expected.
Result<Graph> ParseNetJson(std::string_view text, const std::string& file);

// Writes one node a line. ParseNetJson() of the text returns the same graph if its names are UTF-8
// and its numbers finite.
std::string WriteNetJson(const Graph& graph);

}  // namespace ucudnn::planner
