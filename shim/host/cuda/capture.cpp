#include "shim/host/cuda/capture.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "shim/host/cuda/context.h"
#include "shim/host/leaked.h"

namespace hostgpu {
namespace {

// The ongoing captures. `mutex` also guards Stream::capture and Stream::tail of every stream.
// `count` lets calls return quickly while no stream captures.
struct Captures {
  std::mutex mutex;
  std::atomic<int> count{0};
  std::vector<std::shared_ptr<Capture>> ongoing;
  uint64_t issued = 0;
};

// Never destroyed: other threads may still capture while the process exits.
Captures& TheCaptures() { return Leaked<Captures>(); }

bool NothingCaptures() { return TheCaptures().count == 0; }

uint64_t ThisThread() {
  static std::atomic<uint64_t> next{1};
  thread_local const uint64_t id = next++;
  return id;
}

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Invalidates the ongoing captures for which `spoilt` returns true. Returns whether it invalidated
// any. The caller holds the mutex, as for all functions below in this namespace.
template <class Spoilt>
bool Invalidate(Spoilt spoilt) {
  bool any = false;
  for (const auto& capture : TheCaptures().ongoing) {
    if (!spoilt(*capture)) continue;
    capture->invalidated = true;
    any = true;
  }
  return any;
}

bool IsLegacy(const Stream& stream) { return &stream == stream.context.legacy.get(); }

// Returns whether `capture` forbids work on the legacy stream. Work on that stream waits for every
// blocking stream of its context, and a wait for a capturing stream is impossible.
bool LegacyDependsOn(const Capture& capture, const Stream& legacy) {
  return std::any_of(capture.streams.begin(), capture.streams.end(), [&](const auto& stream) {
    return stream->blocking && &stream->context == &legacy.context;
  });
}

// If `stream` is a legacy stream, invalidates the captures that forbid work on it. Returns whether
// there are such captures.
bool BreaksImplicitly(const Stream& stream) {
  return IsLegacy(stream) &&
         Invalidate([&](const Capture& capture) { return LegacyDependsOn(capture, stream); });
}

CUresult RefuseAndInvalidate(Capture& capture, CUresult result) {
  capture.invalidated = true;
  return result;
}

void AddToTail(Stream& stream, const std::vector<const Node*>& nodes) {
  for (const Node* node : nodes) {
    if (std::find(stream.tail.begin(), stream.tail.end(), node) == stream.tail.end()) {
      stream.tail.push_back(node);
    }
  }
}

void Join(Stream& stream, const std::shared_ptr<Capture>& capture) {
  capture->streams.push_back(stream.shared_from_this());
  stream.capture = capture;
  stream.tail.clear();
}

void Finish(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (const auto& stream : capture->streams) {
    stream->capture = nullptr;
    stream->tail.clear();
  }
  capture->streams.clear();
  capture->origin = nullptr;
  std::erase(TheCaptures().ongoing, capture);
  --TheCaptures().count;
}

// Returns whether the origin stream's tail depends on every recorded node.
bool AllJoined(const Capture& capture) {
  std::unordered_set<const Node*> reached(capture.origin->tail.begin(), capture.origin->tail.end());
  const Nodes& nodes = capture.graph->nodes;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (reached.count(node->get()) == 0) return false;
    reached.insert((*node)->after.begin(), (*node)->after.end());
  }
  return true;
}

void RecordNode(Stream& stream, Work work) {
  auto node = std::make_shared<Node>(
      Node{work.type, std::move(work.run), UsesOf(work.uses), std::move(stream.tail)});
  stream.tail = {node.get()};
  stream.capture->graph->nodes.push_back(std::move(node));
}

}  // namespace

CUstreamCaptureMode ExchangeThreadMode(CUstreamCaptureMode mode) {
  return std::exchange(thread_mode, mode);
}

CUresult BeginCapture(Stream& stream, CUstreamCaptureMode mode) {
  if (IsLegacy(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Captures& captures = TheCaptures();
  std::lock_guard lock(captures.mutex);
  if (stream.capture) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = ++captures.issued;
  capture->mode = mode;
  capture->thread = ThisThread();
  capture->origin = &stream;
  captures.ongoing.push_back(capture);
  ++captures.count;
  Join(stream, capture);
  return CUDA_SUCCESS;
}

CUresult EndCapture(Stream& stream, std::shared_ptr<Graph>* graph) {
  *graph = nullptr;
  std::lock_guard lock(TheCaptures().mutex);
  const std::shared_ptr<Capture> capture = stream.capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != &stream) {
    return RefuseAndInvalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != ThisThread()) {
    return RefuseAndInvalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }
  const bool joined = AllJoined(*capture);
  Finish(capture);
  // Events may keep the ended capture alive for a long time, so the capture gives up its graph now.
  const std::shared_ptr<Graph> recorded = std::move(capture->graph);
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = recorded;
  return CUDA_SUCCESS;
}

std::shared_ptr<Graph> GraphOfCapture(CUgraph handle) {
  Captures& captures = TheCaptures();
  std::lock_guard lock(captures.mutex);
  for (const auto& capture : captures.ongoing) {
    if (capture->graph.get() == reinterpret_cast<Graph*>(handle)) return capture->graph;
  }
  return nullptr;
}

CUresult GetCaptureInfo(const Stream& stream, CaptureInfo* info) {
  *info = {};
  if (NothingCaptures()) return CUDA_SUCCESS;
  Captures& captures = TheCaptures();
  std::lock_guard lock(captures.mutex);
  // While a capture forbids work on a legacy stream, a request for that stream's capture
  // information is refused. Unlike such work, the request invalidates no capture.
  if (IsLegacy(stream) &&
      std::any_of(captures.ongoing.begin(), captures.ongoing.end(),
                  [&](const auto& capture) { return LegacyDependsOn(*capture, stream); })) {
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (!stream.capture) return CUDA_SUCCESS;
  info->status = stream.capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                             : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  info->id = stream.capture->id;
  info->graph = stream.capture->graph;
  for (const Node* node : stream.tail) info->tail.push_back(node->Handle());
  return CUDA_SUCCESS;
}

CUresult Submit(Stream& stream, Work work, Ticket* ticket) {
  if (ticket) *ticket = {};
  if (!NothingCaptures()) {
    std::lock_guard lock(TheCaptures().mutex);
    if (stream.capture) {
      if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      RecordNode(stream, std::move(work));
      return CUDA_SUCCESS;
    }
    if (BreaksImplicitly(stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  const Ticket issued = stream.context.Enqueue(stream, std::move(work.run), std::move(work.after));
  if (ticket) *ticket = issued;
  return CUDA_SUCCESS;
}

CUresult RecordWhileCapturing(Stream& stream, EventRecord& record, bool* captured) {
  *captured = false;
  if (NothingCaptures()) return CUDA_SUCCESS;
  std::lock_guard lock(TheCaptures().mutex);
  if (!stream.capture) {
    return BreaksImplicitly(stream) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
  }
  if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  record.capture = stream.capture;
  record.nodes = stream.tail;
  *captured = true;
  return CUDA_SUCCESS;
}

CUresult WaitWhileCapturing(Stream& stream, const EventRecord* record, bool* captured) {
  *captured = false;
  if (NothingCaptures() && !(record && record->capture)) return CUDA_SUCCESS;
  std::lock_guard lock(TheCaptures().mutex);
  const std::shared_ptr<Capture> own = stream.capture;
  if (own && own->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!own && BreaksImplicitly(stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  const std::shared_ptr<Capture> other = record ? record->capture : nullptr;
  if (!other || other->ended) {
    if (own) return RefuseAndInvalidate(*own, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    return other ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_SUCCESS;
  }
  if (other->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (own && own != other) {
    own->invalidated = true;
    return RefuseAndInvalidate(*other, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  if (IsLegacy(stream)) return RefuseAndInvalidate(*other, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  if (!own) Join(stream, other);
  AddToTail(stream, record->nodes);
  *captured = true;
  return CUDA_SUCCESS;
}

CUresult RefuseIfCapturing(const Stream& stream) {
  if (NothingCaptures()) return CUDA_SUCCESS;
  std::lock_guard lock(TheCaptures().mutex);
  if (BreaksImplicitly(stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (!stream.capture) return CUDA_SUCCESS;
  if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return RefuseAndInvalidate(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult RefuseIfCapturing(const Context& context) {
  if (NothingCaptures()) return CUDA_SUCCESS;
  std::lock_guard lock(TheCaptures().mutex);
  const bool any = Invalidate([&](const Capture& capture) {
    return std::any_of(capture.streams.begin(), capture.streams.end(),
                       [&](const auto& stream) { return &stream->context == &context; });
  });
  return any ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult RefuseIfCaptured(const EventRecord& record) {
  if (!record.capture) return CUDA_SUCCESS;
  std::lock_guard lock(TheCaptures().mutex);
  if (!record.capture->ended) record.capture->invalidated = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult RefuseUnsafeCall() {
  if (NothingCaptures() || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  std::lock_guard lock(TheCaptures().mutex);
  const bool any = Invalidate([](const Capture& capture) {
    if (capture.thread == ThisThread()) return capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  });
  return any ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

void AbandonCaptures(const Context& context) {
  std::lock_guard lock(TheCaptures().mutex);
  const auto ongoing = TheCaptures().ongoing;
  for (const auto& capture : ongoing) {
    if (std::any_of(capture->streams.begin(), capture->streams.end(),
                    [&](const auto& stream) { return &stream->context == &context; })) {
      capture->invalidated = true;
      Finish(capture);
    }
  }
}

}  // namespace hostgpu
