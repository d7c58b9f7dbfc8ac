// Nodes that are graphs themselves. A child graph's handle is valid until its node is destroyed. An
// executable graph uses the content that the child had when the executable graph was instantiated
// or last updated.
#pragma once

#include <memory>

#include "shim/host/cuda/graph.h"

namespace hostgpu {

// Makes a node that holds a copy of `graph` and runs after the nodes `after`.
std::shared_ptr<Node> MakeChildNode(const Graph& graph, std::vector<const Node*> after);

// Returns the child graph of a node that MakeChildNode made; null for other nodes.
std::shared_ptr<Graph> ChildOf(const Node* node);

// Returns copies of `nodes`, with each child node replaced by the nodes of its graph. The copies
// have no dependencies; they run in the order of the result.
Nodes WithoutChildren(const Nodes& nodes);

// Returns a value that is equal for two graphs if their nodes have the same types, run the same
// kernels and have the same dependencies. Such graphs differ only in parameters.
std::vector<uint64_t> TopologyOf(const Graph& graph);

}  // namespace hostgpu
