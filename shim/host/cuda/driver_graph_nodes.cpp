// Driver functions that create graphs and that work on their contents: nodes, child graphs and
// dependencies. Also hostgpuAddToGraph and hostgpuUpdateInGraph.
#include <algorithm>

#include "shim/host/cuda/child_graph.h"
#include "shim/host/cuda/context.h"
#include "shim/host/hostgpu.h"

using namespace hostgpu;

namespace {

// Returns the node of a handle. The handle is valid only as long as the graph, or the capture that
// records it, exists; like the real driver, this function does not check that.
const Node* NodeOf(CUgraphNode handle) { return reinterpret_cast<const Node*>(handle); }

// Returns the graph that contains the node; null if no graph does. The caller holds the state's
// mutex.
Graph* GraphOf(State& state, CUgraphNode handle) {
  for (auto& [address, graph] : state.graphs) {
    for (const auto& node : graph->nodes) {
      if (node->Handle() == handle) return graph.get();
    }
  }
  return nullptr;
}

std::vector<const Node*> Dependents(const Graph& graph, const Node* node) {
  std::vector<const Node*> dependents;
  for (const auto& other : graph.nodes) {
    if (std::count(other->after.begin(), other->after.end(), node) > 0) {
      dependents.push_back(other.get());
    }
  }
  return dependents;
}

// Returns a list as the API does. If `nodes` is null, sets *count to the list's length. Otherwise
// `nodes` is an array of *count elements: writes as many nodes as fit, fills the rest with null,
// and sets *count to the number of nodes written.
CUresult Give(const std::vector<const Node*>& list, CUgraphNode* nodes, size_t* count) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; nodes && i < *count; ++i) {
    nodes[i] = i < list.size() ? list[i]->Handle() : nullptr;
  }
  *count = nodes ? std::min(*count, list.size()) : list.size();
  return CUDA_SUCCESS;
}

// Returns a list with edge data, all of which is zero: the stand-in's edges have no data.
CUresult GiveEdges(const std::vector<const Node*>& list, CUgraphNode* nodes, CUgraphEdgeData* edges,
                   size_t* count) {
  if (edges && !nodes) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; edges && count && i < *count; ++i) edges[i] = {};
  return Give(list, nodes, count);
}

CUresult GiveDependencies(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges,
                          size_t* count) {
  return Call([&] {
    return node ? GiveEdges(NodeOf(node)->after, nodes, edges, count) : CUDA_ERROR_INVALID_VALUE;
  });
}

// Returns a node that runs `work`. work.release is called when the last copy of the node's function
// is destroyed.
Node KernelNode(const hostgpuWork& work, unsigned long long kernel) {
  const std::shared_ptr<void> argument(work.argument, [release = work.release](void* held) {
    if (release) release(held);
  });
  std::vector<uintptr_t> uses;
  for (size_t i = 0; i < work.use_count; ++i) {
    uses.push_back(reinterpret_cast<uintptr_t>(work.uses[i]));
  }
  return Node{CU_GRAPH_NODE_TYPE_KERNEL,
              [run = work.run, argument] { run(argument.get()); },
              UsesOf(uses),
              {},
              kernel};
}

}  // namespace

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return Call([&] {
    const std::shared_ptr<Graph> graph = FindGraph(handle);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    std::vector<const Node*> all;
    for (const auto& node : graph->nodes) all.push_back(node.get());
    return Give(all, nodes, count);
  });
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return Call([&] {
    const std::shared_ptr<Graph> graph = FindGraph(handle);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    std::vector<const Node*> roots;
    for (const auto& node : graph->nodes) {
      if (node->after.empty()) roots.push_back(node.get());
    }
    return Give(roots, nodes, count);
  });
}

CUresult cuGraphCreate(CUgraph* out, unsigned flags) {
  return Call([&] {
    if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *out = Keep<CUgraph>(&State::graphs, std::make_shared<Graph>());
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies,
                                  size_t count, CUgraph child_handle) {
  return Call([&] {
    const std::shared_ptr<Graph> graph = FindGraph(handle);
    const std::shared_ptr<Graph> child = FindGraph(child_handle);
    if (!out || !graph || !child || graph == child || (count > 0 && !dependencies)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::vector<const Node*> after;
    for (size_t i = 0; i < count; ++i) {
      const bool there =
          std::any_of(graph->nodes.begin(), graph->nodes.end(),
                      [&](const auto& node) { return node->Handle() == dependencies[i]; });
      if (!there) return CUDA_ERROR_INVALID_VALUE;
      after.push_back(NodeOf(dependencies[i]));
    }
    graph->nodes.push_back(MakeChildNode(*child, std::move(after)));
    graph->objects.insert(graph->objects.end(), child->objects.begin(), child->objects.end());
    *out = graph->nodes.back()->Handle();
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* out) {
  return Call([&] {
    if (!node || !out) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<Graph> child = ChildOf(NodeOf(node));
    if (!child) return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUgraph>(child.get());
    return CUDA_SUCCESS;
  });
}

// Refuses a node on which other nodes depend. Removing it would change the dependents' edges, and
// nodes never change.
CUresult cuGraphDestroyNode(CUgraphNode handle) {
  return Call([&] {
    std::shared_ptr<Node> last;  // destroyed without the lock
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    Graph* const graph = GraphOf(state, handle);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    if (!Dependents(*graph, NodeOf(handle)).empty()) return CUDA_ERROR_NOT_SUPPORTED;
    const auto node =
        std::find_if(graph->nodes.begin(), graph->nodes.end(),
                     [&](const auto& candidate) { return candidate->Handle() == handle; });
    last = std::move(*node);
    graph->nodes.erase(node);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return Call([&] {
    if (!node || !type) return CUDA_ERROR_INVALID_VALUE;
    *type = NodeOf(node)->type;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges,
                                    size_t* count) {
  return GiveDependencies(node, nodes, edges, count);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges,
                                      size_t* count) {
  return Call([&] {
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    const Graph* const graph = GraphOf(state, node);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    return GiveEdges(Dependents(*graph, NodeOf(node)), nodes, edges, count);
  });
}

int hostgpuAddToGraph(void* handle, const hostgpuWork* work, unsigned long long kernel) try {
  Node node = KernelNode(*work, kernel);
  return Call([&] {
           const std::shared_ptr<Graph> graph = FindGraph(static_cast<CUgraph>(handle));
           if (!graph) return CUDA_ERROR_INVALID_VALUE;
           graph->nodes.push_back(std::make_shared<Node>(std::move(node)));
           return CUDA_SUCCESS;
         }) == CUDA_SUCCESS;
} catch (...) {
  return 0;
}

int hostgpuUpdateInGraph(void* handle, const hostgpuWork* work, unsigned long long kernel) try {
  Node node = KernelNode(*work, kernel);
  return Call([&] {
           const std::shared_ptr<Graph> graph = FindGraph(static_cast<CUgraph>(handle));
           if (!graph || graph->nodes.size() != 1 || graph->nodes[0]->kernel != kernel) {
             return CUDA_ERROR_INVALID_VALUE;
           }
           *graph->nodes[0] = std::move(node);  // the node's handle, its address, does not change
           return CUDA_SUCCESS;
         }) == CUDA_SUCCESS;
} catch (...) {
  return 0;
}

// Earlier versions without edge data, which the header no longer declares.
#undef cuGraphNodeGetDependencies
#pragma GCC visibility push(default)
extern "C" {

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  return GiveDependencies(node, nodes, nullptr, count);
}

}  // extern "C"
#pragma GCC visibility pop
