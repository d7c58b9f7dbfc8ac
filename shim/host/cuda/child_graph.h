// Nodes that are graphs themselves. A child graph belongs to its node: it has a handle as long as
// the node lives, and what it holds when its parent is made executable is what runs.
#pragma once

#include <memory>

#include "shim/host/cuda/graph.h"

namespace hostgpu {

// A node that holds a copy of `graph`, behind `after`.
std::shared_ptr<Node> MakeChildNode(const Graph& graph, std::vector<const Node*> after);

// The graph of a node made so; null for any other.
std::shared_ptr<Graph> ChildOf(const Node* node);

// Copies of `nodes`, those of child graphs in their nodes' place. They run in this order and know
// nothing of what they come after.
Nodes WithoutChildren(const Nodes& nodes);

// Equal for graphs whose nodes are of the same types, run the same kernels and wait for the same
// nodes: one may differ from the other in parameters alone.
std::vector<uint64_t> TopologyOf(const Graph& graph);

}  // namespace hostgpu
