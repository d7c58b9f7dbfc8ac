// Whether a graph from a file is one network. Pure functions.
#pragma once

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// An error for a graph without nodes, or of several parts; it names a node of two of them.
Status CheckConnected(const Graph& graph);

}  // namespace ucudnn::planner
