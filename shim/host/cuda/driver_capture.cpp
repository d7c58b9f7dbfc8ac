// Driver functions for stream capture.
#include "shim/host/cuda/capture.h"
#include "shim/host/cuda/context.h"

using namespace hostgpu;

namespace {

bool IsMode(CUstreamCaptureMode mode) {
  return mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED;
}

// The arrays that Info last returned to this thread. By the documentation they must stay valid
// until the next call on the stream.
struct Dependencies {
  std::vector<CUgraphNode> nodes;
  std::vector<CUgraphEdgeData> edges;
};
thread_local Dependencies dependencies;

CUresult Info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
              const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
  return CallOnStream(handle, [&](Context&, Stream& stream) -> CUresult {
    if (!status || (edges && !nodes)) return CUDA_ERROR_INVALID_VALUE;
    CaptureInfo info;
    if (const CUresult result = GetCaptureInfo(stream, &info); result != CUDA_SUCCESS) {
      return result;
    }
    *status = info.status;
    if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    dependencies.nodes = std::move(info.tail);
    dependencies.edges.assign(dependencies.nodes.size(), {});
    if (id) *id = info.id;
    if (graph) *graph = reinterpret_cast<CUgraph>(info.graph.get());
    if (nodes) *nodes = dependencies.nodes.data();
    if (edges) *edges = dependencies.edges.data();
    if (count) *count = dependencies.nodes.size();
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return CallOnStream(handle, [&](Context&, Stream& stream) {
    return IsMode(mode) ? BeginCapture(stream, mode) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* out) {
  return CallOnStream(handle, [&](Context&, Stream& stream) -> CUresult {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    std::shared_ptr<Graph> graph;
    if (const CUresult result = EndCapture(stream, &graph); result != CUDA_SUCCESS) return result;
    *out = Keep<CUgraph>(&State::graphs, graph);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return Info(handle, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes,
                                   const CUgraphEdgeData** edges, size_t* count) {
  return Info(handle, status, id, graph, nodes, edges, count);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return Call([&] {
    if (!mode || !IsMode(*mode)) return CUDA_ERROR_INVALID_VALUE;
    *mode = ExchangeThreadMode(*mode);
    return CUDA_SUCCESS;
  });
}

// An earlier version of the function, which the header no longer declares.
extern "C" [[gnu::visibility("default")]] CUresult cuStreamGetCaptureInfo_v2(
    CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
    const CUgraphNode** nodes, size_t* count) {
  return Info(handle, status, id, graph, nodes, nullptr, count);
}
