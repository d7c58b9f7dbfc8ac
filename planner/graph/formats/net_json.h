// Networks as JSON, "ucudnn-net": FORMAT.md beside this file. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// `file` is the name errors show: they name the node and the member, its value and what was
// expected.
Result<Graph> ParseNetJson(std::string_view text, const std::string& file);

// One node a line. ParseNetJson() of it is the graph again, as long as its names are UTF-8 and its
// numbers finite.
std::string WriteNetJson(const Graph& graph);

}  // namespace ucudnn::planner
