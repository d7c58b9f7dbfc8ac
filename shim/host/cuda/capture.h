// Stream capture: which streams record instead of run, and which calls a capture forbids meanwhile.
// A call that breaks a rule is refused, and invalidates the captures that it would have spoilt;
// they remain until their end is called. All functions are thread-safe. The rules are the driver
// API's (cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode) and the CUDA programming guide's
// ("Prohibited and Unhandled Operations"). Stricter than a GPU: no stream-ordered allocation while
// capturing (STREAM_CAPTURE_UNSUPPORTED).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shim/host/cuda/graph.h"
#include "shim/host/cuda/stream.h"

namespace hostgpu {

struct Context;

// One capture sequence: from its begin to its end.
struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread = 0;  // the thread that began it
  Stream* origin = nullptr;
  std::vector<std::shared_ptr<Stream>> streams;  // the origin and streams that were forked from it
  bool ended = false;
  bool invalidated = false;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
};

// Sets the calling thread's interaction mode, and returns the former one.
CUstreamCaptureMode ExchangeThreadMode(CUstreamCaptureMode mode);

CUresult BeginCapture(Stream& stream, CUstreamCaptureMode mode);
// Ends the capture with any result except UNMATCHED, WRONG_THREAD and ILLEGAL_STATE. `graph` is
// null unless it succeeds.
CUresult EndCapture(Stream& stream, std::shared_ptr<Graph>* graph);

struct CaptureInfo {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  uint64_t id = 0;
  std::shared_ptr<Graph> graph;
  std::vector<CUgraphNode> tail;  // nodes on which the next node will depend
};
CUresult GetCaptureInfo(const Stream& stream, CaptureInfo* info);
// Returns the graph of an ongoing capture; null if the handle is none's.
std::shared_ptr<Graph> GraphOfCapture(CUgraph handle);

// Gives `work` to `stream`: enqueued in its context's order, or recorded if it captures. `ticket`
// becomes the default one if it was recorded.
CUresult Submit(Stream& stream, Work work, Ticket* ticket = nullptr);

// Handle cuEventRecord and cuStreamWaitEvent if a capture is concerned; *captured says whether one
// is, in which case everything is done. `record` is null for an event that was never recorded.
CUresult RecordWhileCapturing(Stream& stream, EventRecord& record, bool* captured);
CUresult WaitWhileCapturing(Stream& stream, const EventRecord* record, bool* captured);

// Refuses calls that ask about, or wait for, work that may be captured, and calls that cannot be
// recorded.
CUresult RefuseIfCapturing(const Stream& stream);
CUresult RefuseIfCapturing(const Context& context);
CUresult RefuseIfCaptured(const EventRecord& record);
// Refuses "potentially unsafe" calls that the thread's mode and the ongoing captures forbid.
CUresult RefuseUnsafeCall();

// To be called when the context is reset: its captures are over.
void AbandonCaptures(const Context& context);

}  // namespace hostgpu
