// Checks whether a graph from a file is one network. Pure functions.
#pragma once

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Fails if the graph has no nodes or consists of several unconnected parts. The error names a node
// of each of two such parts.
Status CheckConnected(const Graph& graph);

}  // namespace ucudnn::planner
