// The CUDA graph that a stream is captured into, and objects that live as long as a graph.
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "base/status.h"
#include "cuda/driver.h"

namespace ucudnn::cuda {

struct Capture {
  cuuint64_t number = 0;  // unique among the captures of the process
  CUgraph graph = nullptr;
};

// Returns the capture that `stream` is in. None if the stream is in no capture that can still
// become a graph.
std::optional<Capture> CaptureOf(const Driver& driver, CUstream stream);

// Gives `kept` to `graph`. A thread of the driver releases it once the graph, and all copies and
// instances of it, are destroyed and their launches are over; the destructor of `kept` must not
// call CUDA. On an error `kept` is released at once.
Status KeepWithGraph(const Driver& driver, CUgraph graph, std::shared_ptr<void> kept);
// KeepWithGraph for the graph that `stream` is captured into.
Status KeepWithGraphOf(const Driver& driver, CUstream stream, std::shared_ptr<void> kept);

// True once the graph, and all copies and instances of it, are destroyed and their launches are
// over.
using GraphEnd = std::shared_ptr<const std::atomic<bool>>;
// Returns a GraphEnd that never becomes true if the driver cannot tell.
GraphEnd EndOf(const Driver& driver, CUgraph graph);

}  // namespace ucudnn::cuda
