// Nodes that are graphs themselves. A child graph belongs to its node: it has a handle as long as
// the node lives, and what it holds when its parent is made executable is what runs.
#pragma once

#include <memory>

#include "shim/host/cuda/graph.h"

namespace hostgpu {

// A node that holds a copy of `graph`, behind `after`.
std::shared_ptr<const Node> MakeChildNode(const Graph& graph, std::vector<const Node*> after);

// The graph of a node made so; null for any other.
std::shared_ptr<Graph> ChildOf(const Node* node);

// `nodes`, those of child graphs in their nodes' place.
Nodes WithoutChildren(const Nodes& nodes);

}  // namespace hostgpu
