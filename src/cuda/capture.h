// The CUDA graph that a stream is captured into, and what lives as long as a graph does.
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "base/status.h"
#include "cuda/driver.h"

namespace ucudnn::cuda {

struct Capture {
  cuuint64_t number = 0;  // no other capture of the process has it
  CUgraph graph = nullptr;
};

// The capture that `stream` is in. None where the stream is in no capture that can still become a
// graph.
std::optional<Capture> CaptureOf(const Driver& driver, CUstream stream);

// Gives `kept` to `graph`. A thread of the driver's releases it once the graph, and all that was
// copied or instantiated of it, are destroyed and their launches are over; its destructor must not
// call CUDA. On an error `kept` is released at once.
Status KeepWithGraph(const Driver& driver, CUgraph graph, std::shared_ptr<void> kept);
// KeepWithGraph for the graph that `stream` is captured into.
Status KeepWithGraphOf(const Driver& driver, CUstream stream, std::shared_ptr<void> kept);

// True once the graph, and all that was copied or instantiated of it, are destroyed and their
// launches are over.
using GraphEnd = std::shared_ptr<const std::atomic<bool>>;
// Never becomes true where the driver cannot tell.
GraphEnd EndOf(const Driver& driver, CUgraph graph);

}  // namespace ucudnn::cuda
