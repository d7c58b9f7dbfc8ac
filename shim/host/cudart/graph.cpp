// Runtime functions for stream capture and graphs, implemented by the driver's functions. Handles
// and enumeration values are the same in both APIs.
#include "shim/host/cudart/runtime.h"

using namespace hostgpu::runtime;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return Bound(
      [&] { return cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)); });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return Bound(cuStreamEndCapture, stream, graph);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return Bound(cuStreamIsCapturing, stream, reinterpret_cast<CUstreamCaptureStatus*>(status));
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));
  return Bound([&] {
    cuuint64_t driver_id = 0;
    const CUresult result = cuStreamGetCaptureInfo(
        stream, reinterpret_cast<CUstreamCaptureStatus*>(status), &driver_id, graph, nodes,
        reinterpret_cast<const CUgraphEdgeData**>(edges), count);
    if (id && driver_id != 0) *id = driver_id;
    return result;
  });
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return Initialised(cuThreadExchangeStreamCaptureMode,
                     reinterpret_cast<CUstreamCaptureMode*>(mode));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return Bound(cuGraphInstantiateWithFlags, exec, graph, flags);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return Bound(cuGraphLaunch, exec, stream);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return Bound(cuGraphDestroy, graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return Bound(cuGraphExecDestroy, exec); }
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return Bound(cuGraphGetNodes, graph, nodes, count);
}
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return Bound(cuGraphGetRootNodes, graph, nodes, count);
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                       const cudaGraphNode_t* dependencies, size_t count,
                                       cudaGraph_t child) {
  return Bound(cuGraphAddChildGraphNode, node, graph, dependencies, count, child);
}
cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return Bound(cuGraphCreate, graph, flags);
}
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  return Bound(cuGraphChildGraphNodeGetGraph, node, graph);
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                         cudaGraphEdgeData* edges, size_t* count) {
  return Bound(cuGraphNodeGetDependencies, node, nodes, reinterpret_cast<CUgraphEdgeData*>(edges),
               count);
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                           cudaGraphEdgeData* edges, size_t* count) {
  return Bound(cuGraphNodeGetDependentNodes, node, nodes, reinterpret_cast<CUgraphEdgeData*>(edges),
               count);
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  return Bound([&] {
    if (!info) return CUDA_ERROR_INVALID_VALUE;
    CUgraphExecUpdateResultInfo driver{};
    const CUresult result = cuGraphExecUpdate(exec, graph, &driver);
    *info = {static_cast<cudaGraphExecUpdateResult>(driver.result), driver.errorNode,
             driver.errorFromNode};
    return result;
  });
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return Bound(cuGraphNodeGetType, node, reinterpret_cast<CUgraphNodeType*>(type));
}
