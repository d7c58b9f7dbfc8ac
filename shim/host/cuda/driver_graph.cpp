// Graphs: what capture recorded, or other graphs in a row, made executable and launched.
#include <algorithm>
#include <cstdio>

#include "shim/host/cuda/capture.h"
#include "shim/host/cuda/child_graph.h"
#include "shim/host/cuda/context.h"

using hostgpu::Call;
using hostgpu::CallOnStream;
using hostgpu::Context;
using hostgpu::Graph;
using hostgpu::GraphExec;
using hostgpu::Node;
using hostgpu::State;
using hostgpu::Stream;
using hostgpu::TheState;
using hostgpu::Ticket;
using hostgpu::Use;
using hostgpu::Work;

namespace {

template <class Object, class Handle, class Table>
std::shared_ptr<Object> Find(Table State::*table, Handle handle) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  const auto found = (state.*table).find(reinterpret_cast<Object*>(handle));
  return found == (state.*table).end() ? nullptr : found->second;
}

template <class Object, class Handle, class Table>
CUresult Destroy(Table State::*table, Handle handle) {
  return Call([&] {
    State& state = TheState();
    std::shared_ptr<Object> last;  // destroyed outside the lock: nodes free what they hold
    std::lock_guard lock(state.mutex);
    const auto found = (state.*table).find(reinterpret_cast<Object*>(handle));
    if (found == (state.*table).end()) return CUDA_ERROR_INVALID_VALUE;
    last = std::move(found->second);
    (state.*table).erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult Instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags,
                     unsigned long long accepted) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  const std::shared_ptr<Graph> graph = Find<Graph>(&State::graphs, handle);
  if (!graph || (flags & ~accepted)) return CUDA_ERROR_INVALID_VALUE;
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) return CUDA_ERROR_NOT_SUPPORTED;
  auto exec = std::make_shared<GraphExec>(hostgpu::WithoutChildren(graph->nodes));
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  *out = reinterpret_cast<CUgraphExec>(exec.get());
  state.graph_execs.emplace(exec.get(), std::move(exec));
  return CUDA_SUCCESS;
}

// All but UPLOAD, which belongs to cuGraphInstantiateWithParams.
constexpr unsigned long long kFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                      CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

// A handle of a node is valid while its graph, or the capture that makes it, lives; like the
// driver, this does not look whether it is.
const Node* NodeOf(CUgraphNode handle) { return reinterpret_cast<const Node*>(handle); }

}  // namespace

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return Call([&] { return Instantiate(out, graph, flags, kFlags); });
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return Call([&]() -> CUresult {
    if (!parameters) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result =
        Instantiate(out, graph, parameters->flags, kFlags | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
    parameters->hErrNode_out = nullptr;
    parameters->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return CallOnStream(stream_handle, [&](Context&, Stream& stream) -> CUresult {
    const std::shared_ptr<GraphExec> exec = Find<GraphExec>(&State::graph_execs, handle);
    if (!exec) return CUDA_ERROR_INVALID_VALUE;
    if (const Use* stale = FindStaleUse(exec->nodes)) {
      std::fprintf(stderr, "hostgpu: a graph works on memory at %p that was freed since\n",
                   reinterpret_cast<void*>(stale->address));
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    Work work{CU_GRAPH_NODE_TYPE_GRAPH, RunAll(exec->nodes), {}};
    for (const auto& node : exec->nodes) {
      for (const Use& use : node->uses) work.uses.push_back(use.address);
    }
    std::lock_guard lock(exec->mutex);
    work.after = {exec->last};
    Ticket issued;
    const CUresult result = Submit(stream, std::move(work), &issued);
    if (issued.progress) exec->last = issued;
    return result;
  });
}

// There is nowhere to upload to.
CUresult cuGraphUpload(CUgraphExec handle, CUstream stream) {
  return CallOnStream(stream, [&](Context&, Stream&) {
    return Find<GraphExec>(&State::graph_execs, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuGraphDestroy(CUgraph graph) { return Destroy<Graph>(&State::graphs, graph); }
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return Destroy<GraphExec>(&State::graph_execs, exec);
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return Call([&] {
    const std::shared_ptr<Graph> graph = Find<Graph>(&State::graphs, handle);
    if (!graph || !count) return CUDA_ERROR_INVALID_VALUE;
    const size_t there = graph->nodes.size();
    for (size_t i = 0; nodes && i < *count; ++i) {
      nodes[i] = i < there ? graph->nodes[i]->Handle() : nullptr;
    }
    *count = nodes ? std::min(*count, there) : there;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphCreate(CUgraph* out, unsigned flags) {
  return Call([&] {
    if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    auto graph = std::make_shared<Graph>();
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    *out = reinterpret_cast<CUgraph>(graph.get());
    state.graphs.emplace(graph.get(), std::move(graph));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies,
                                  size_t count, CUgraph child_handle) {
  return Call([&] {
    const std::shared_ptr<Graph> graph = Find<Graph>(&State::graphs, handle);
    const std::shared_ptr<Graph> child = Find<Graph>(&State::graphs, child_handle);
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
    graph->nodes.push_back(hostgpu::MakeChildNode(*child, std::move(after)));
    *out = graph->nodes.back()->Handle();
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* out) {
  return Call([&] {
    if (!node || !out) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<Graph> child = hostgpu::ChildOf(NodeOf(node));
    if (!child) return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUgraph>(child.get());
    return CUDA_SUCCESS;
  });
}

// A node that others wait for stays: its edges could not be taken away, for nodes never change.
CUresult cuGraphDestroyNode(CUgraphNode handle) {
  return Call([&] {
    std::shared_ptr<const Node> last;  // destroyed outside the lock
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    for (auto& [address, graph] : state.graphs) {
      auto& nodes = graph->nodes;
      const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const auto& candidate) {
        return candidate->Handle() == handle;
      });
      if (node == nodes.end()) continue;
      for (const auto& other : nodes) {
        if (std::count(other->after.begin(), other->after.end(), node->get()) > 0) {
          return CUDA_ERROR_NOT_SUPPORTED;
        }
      }
      last = std::move(*node);
      nodes.erase(node);
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return Call([&] {
    if (!node || !type) return CUDA_ERROR_INVALID_VALUE;
    *type = NodeOf(node)->type;
    return CUDA_SUCCESS;
  });
}

// As CUDA 12.0 has it, without data of edges; the header declares only the later version.
#undef cuGraphNodeGetDependencies
#pragma GCC visibility push(default)
extern "C" {

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* dependencies, size_t* count) {
  return Call([&] {
    if (!node || !count) return CUDA_ERROR_INVALID_VALUE;
    const std::vector<const Node*>& after = NodeOf(node)->after;
    for (size_t i = 0; dependencies && i < *count; ++i) {
      dependencies[i] = i < after.size() ? after[i]->Handle() : nullptr;
    }
    *count = dependencies ? std::min(*count, after.size()) : after.size();
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
#pragma GCC visibility pop
