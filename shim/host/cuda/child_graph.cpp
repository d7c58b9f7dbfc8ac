#include "shim/host/cuda/child_graph.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "shim/host/cuda/context.h"

namespace hostgpu {
namespace {

// Leaked: graphs may be destroyed while the process exits.
struct Children {
  std::mutex mutex;
  std::unordered_map<const Node*, std::shared_ptr<Graph>> of;
};
Children& TheChildren() {
  static Children* const children = new Children;
  return *children;
}

struct ChildNode : Node {
  explicit ChildNode(Node node) : Node(std::move(node)) {}
  ~ChildNode() {
    std::shared_ptr<Graph> child,
        listed;  // destroyed outside the locks: its nodes may be like this
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

}  // namespace

std::shared_ptr<const Node> MakeChildNode(const Graph& graph, std::vector<const Node*> after) {
  auto child = std::make_shared<Graph>(graph);
  auto node =
      std::make_shared<ChildNode>(Node{CU_GRAPH_NODE_TYPE_GRAPH, [] {}, {}, std::move(after)});
  {
    std::lock_guard lock(TheChildren().mutex);
    TheChildren().of.emplace(node.get(), child);
  }
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.graphs.emplace(child.get(), child);
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
      flat.push_back(node);
    }
  }
  return flat;
}

}  // namespace hostgpu
