// Driver functions that instantiate, update, launch and destroy executable graphs, and destroy
// graphs.
#include <cstdio>

#include "shim/host/cuda/capture.h"
#include "shim/host/cuda/child_graph.h"
#include "shim/host/cuda/context.h"

using namespace hostgpu;

namespace {

std::shared_ptr<GraphExec> FindExec(CUgraphExec handle) {
  return Find(&State::graph_execs, handle);
}

template <class Object, class Handle, class Table>
CUresult Destroy(Table State::*table, Handle handle) {
  return Call([&] {
    State& state = TheState();
    // `last` is destroyed after the lock is released, because destructors of its nodes and of their
    // objects may take the lock.
    std::shared_ptr<Object> last;
    std::lock_guard lock(state.mutex);
    const auto found = (state.*table).find(reinterpret_cast<Object*>(handle));
    if (found == (state.*table).end()) return CUDA_ERROR_INVALID_VALUE;
    last = std::move(found->second);
    (state.*table).erase(found);
    return CUDA_SUCCESS;
  });
}

// All flags that cuGraphInstantiateWithFlags accepts. Only cuGraphInstantiateWithParams also
// accepts UPLOAD.
constexpr unsigned long long kFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                      CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

}  // namespace

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  return Call([&]() -> CUresult {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    const std::shared_ptr<Graph> graph = FindGraph(handle);
    if (!graph || (flags & ~kFlags)) return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) return CUDA_ERROR_NOT_SUPPORTED;
    const auto exec = std::make_shared<GraphExec>();
    exec->nodes = WithoutChildren(graph->nodes);
    exec->topology = TopologyOf(*graph);
    exec->objects = graph->objects;
    *out = Keep<CUgraphExec>(&State::graph_execs, exec);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return CallOnStream(stream_handle, [&](Context&, Stream& stream) -> CUresult {
    const std::shared_ptr<GraphExec> exec = FindExec(handle);
    if (!exec) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(exec->mutex);
    if (const Use* stale = FindStaleUse(exec->nodes)) {
      std::fprintf(stderr, "hostgpu: a graph works on memory at %p that was freed since\n",
                   reinterpret_cast<void*>(stale->address));
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    Work work{CU_GRAPH_NODE_TYPE_GRAPH, RunAll(exec->nodes, exec->objects), {}};
    for (const auto& node : exec->nodes) {
      for (const Use& use : node->uses) work.uses.push_back(use.address);
    }
    work.after = {exec->last};
    Ticket issued;
    const CUresult result = Submit(stream, std::move(work), &issued);
    if (issued.progress) exec->last = issued;
    return result;
  });
}

// Replaces the nodes that later launches run. Launches that have begun continue with the former
// nodes.
CUresult cuGraphExecUpdate(CUgraphExec handle, CUgraph graph_handle,
                           CUgraphExecUpdateResultInfo* info) {
  return Call([&]() -> CUresult {
    if (!info) return CUDA_ERROR_INVALID_VALUE;
    *info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
    const std::shared_ptr<GraphExec> exec = FindExec(handle);
    const std::shared_ptr<Graph> graph = FindGraph(graph_handle);
    if (!exec || !graph) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(exec->mutex);
    if (exec->topology != TopologyOf(*graph)) {
      info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    exec->nodes = WithoutChildren(graph->nodes);
    exec->objects = graph->objects;
    info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph graph) { return Destroy<Graph>(&State::graphs, graph); }
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return Destroy<GraphExec>(&State::graph_execs, exec);
}
