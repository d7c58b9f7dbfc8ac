// Checks whether a graph from a file is one network. Pure functions.
#pragma once

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Fails if the graph has no nodes or consists of several unconnected parts. The error names one
// node of each of two parts.
Status CheckConnected(const Graph& graph);

}  // namespace ucudnn::planner
