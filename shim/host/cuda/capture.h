// Stream capture: determines which streams record work instead of running it, and which calls are
// forbidden during a capture. A forbidden call is refused. It also invalidates the captures that it
// concerns, unless it only begins a capture or asks for capture information. An invalidated capture
// continues until cuStreamEndCapture, or until its context is reset. All functions are thread-safe.
// The rules come from the driver API (cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode) and
// the CUDA programming guide ("Prohibited and Unhandled Operations"). One rule is stricter than on
// a GPU: stream-ordered allocating and freeing are refused while the stream captures
// (STREAM_CAPTURE_UNSUPPORTED).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shim/host/cuda/graph.h"
#include "shim/host/cuda/stream.h"

namespace hostgpu {

struct Context;

// One capture sequence, from cuStreamBeginCapture to cuStreamEndCapture.
struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread = 0;  // number of the thread that began the capture
  Stream* origin = nullptr;
  // The origin stream, and the streams that joined the capture by waiting for an event recorded in
  // it.
  std::vector<std::shared_ptr<Stream>> streams;
  bool ended = false;
  bool invalidated = false;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
};

// Sets the calling thread's capture mode, and returns the former mode.
CUstreamCaptureMode ExchangeThreadMode(CUstreamCaptureMode mode);

CUresult BeginCapture(Stream& stream, CUstreamCaptureMode mode);
// Ends the capture, unless the result is UNMATCHED, WRONG_THREAD or ILLEGAL_STATE. Sets `graph` to
// the recorded graph, or to null on any error.
CUresult EndCapture(Stream& stream, std::shared_ptr<Graph>* graph);

struct CaptureInfo {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  uint64_t id = 0;
  std::shared_ptr<Graph> graph;
  std::vector<CUgraphNode> tail;  // the nodes on which the stream's next node will depend
};
CUresult GetCaptureInfo(const Stream& stream, CaptureInfo* info);
// Returns the graph of an ongoing capture; null if the handle belongs to no ongoing capture.
std::shared_ptr<Graph> GraphOfCapture(CUgraph handle);

// Enqueues `work` on `stream` by Context::Enqueue, or records it if the stream captures. Sets
// `ticket` to the work's ticket, or to a default-constructed ticket if the work was recorded.
CUresult Submit(Stream& stream, Work work, Ticket* ticket = nullptr);

// These functions handle cuEventRecord and cuStreamWaitEvent during captures. They set *captured to
// true if a capture recorded the call; then the caller does nothing more. `record` is null for an
// event that was never recorded.
CUresult RecordWhileCapturing(Stream& stream, EventRecord& record, bool* captured);
CUresult WaitWhileCapturing(Stream& stream, const EventRecord* record, bool* captured);

// These functions refuse calls that a capture cannot record, and calls that query work or wait for
// work that a capture may have recorded.
CUresult RefuseIfCapturing(const Stream& stream);
CUresult RefuseIfCapturing(const Context& context);
CUresult RefuseIfCaptured(const EventRecord& record);
// Refuses a call that CUDA names "potentially unsafe" if the thread's mode and the ongoing captures
// forbid it.
CUresult RefuseUnsafeCall();

// Ends the captures of a context that is being reset.
void AbandonCaptures(const Context& context);

}  // namespace hostgpu
