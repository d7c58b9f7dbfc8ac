// Nodes that are graphs themselves. A child graph belongs to its node: its handle is valid as long
// as the node lives. When its parent is made executable, its content at that moment is what will
// run.
#pragma once

#include <memory>

#include "shim/host/cuda/graph.h"

namespace hostgpu {

// Makes a node that holds a copy of `graph` and runs behind `after`.
std::shared_ptr<Node> MakeChildNode(const Graph& graph, std::vector<const Node*> after);

// Returns the graph of a node of MakeChildNode; null for any other.
std::shared_ptr<Graph> ChildOf(const Node* node);

// Copies of `nodes`, with the nodes of child graphs in place of the child nodes. They run in this
// order and have no dependencies.
Nodes WithoutChildren(const Nodes& nodes);

// Returns a value that is equal for graphs whose nodes have the same types, run the same kernels
// and wait for the same nodes. Such graphs differ only in parameters.
std::vector<uint64_t> TopologyOf(const Graph& graph);

}  // namespace hostgpu
