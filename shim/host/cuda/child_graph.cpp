#include "shim/host/cuda/child_graph.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "shim/host/cuda/context.h"
#include "shim/host/leaked.h"

namespace hostgpu {
namespace {

// The child graph of each child node. Never destroyed, because nodes may be destroyed while the
// process exits.
struct Children {
  std::mutex mutex;
  std::unordered_map<const Node*, std::shared_ptr<Graph>> of;
};
Children& TheChildren() { return Leaked<Children>(); }

struct ChildNode : Node {
  explicit ChildNode(Node node) : Node(std::move(node)) {}
  ~ChildNode() {
    std::shared_ptr<Graph> child,
        listed;  // destroyed after the locks are released: destructors of child nodes lock again
    {
      std::lock_guard lock(TheChildren().mutex);
      const auto found = TheChildren().of.find(this);
      if (found == TheChildren().of.end()) return;
      child = std::move(found->second);
      TheChildren().of.erase(found);
    }
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    const auto found = state.graphs.find(child.get());
    if (found == state.graphs.end()) return;
    listed = std::move(found->second);
    state.graphs.erase(found);
  }
};

// Returns a copy of `graph`. The copy has its own nodes, in the order and with the dependencies of
// the nodes of `graph`.
Graph Copy(const Graph& graph) {
  Graph copy;
  std::unordered_map<const Node*, const Node*> copies;
  for (const auto& node : graph.nodes) {
    std::vector<const Node*> after;
    for (const Node* earlier : node->after) after.push_back(copies.at(earlier));
    const std::shared_ptr<Graph> child = ChildOf(node.get());
    copy.nodes.push_back(child ? MakeChildNode(*child, std::move(after))
                               : std::make_shared<Node>(Node{node->type, node->run, node->uses,
                                                             std::move(after), node->kernel}));
    copies.emplace(node.get(), copy.nodes.back().get());
  }
  return copy;
}

}  // namespace

std::shared_ptr<Node> MakeChildNode(const Graph& graph, std::vector<const Node*> after) {
  auto child = std::make_shared<Graph>(Copy(graph));
  auto node =
      std::make_shared<ChildNode>(Node{CU_GRAPH_NODE_TYPE_GRAPH, [] {}, {}, std::move(after)});
  {
    std::lock_guard lock(TheChildren().mutex);
    TheChildren().of.emplace(node.get(), child);
  }
  Keep<CUgraph>(&State::graphs, child);
  return node;
}

std::shared_ptr<Graph> ChildOf(const Node* node) {
  std::lock_guard lock(TheChildren().mutex);
  const auto found = TheChildren().of.find(node);
  return found == TheChildren().of.end() ? nullptr : found->second;
}

Nodes WithoutChildren(const Nodes& nodes) {
  Nodes flat;
  for (const auto& node : nodes) {
    if (const std::shared_ptr<Graph> child = ChildOf(node.get())) {
      const Nodes inner = WithoutChildren(child->nodes);
      flat.insert(flat.end(), inner.begin(), inner.end());
    } else {
      flat.push_back(std::make_shared<Node>(
          Node{node->type, node->run, node->uses, /*after=*/{}, node->kernel}));
    }
  }
  return flat;
}

std::vector<uint64_t> TopologyOf(const Graph& graph) {
  std::vector<uint64_t> topology = {graph.nodes.size()};
  std::unordered_map<const Node*, uint64_t> places;
  for (const auto& node : graph.nodes) {
    topology.insert(topology.end(),
                    {static_cast<uint64_t>(node->type), node->kernel, node->after.size()});
    for (const Node* earlier : node->after) topology.push_back(places.at(earlier));
    places.emplace(node.get(), places.size());
    if (const std::shared_ptr<Graph> child = ChildOf(node.get())) {
      const std::vector<uint64_t> inner = TopologyOf(*child);
      topology.insert(topology.end(), inner.begin(), inner.end());
    }
  }
  return topology;
}

}  // namespace hostgpu
