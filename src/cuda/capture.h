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

// Gives `kept` to the graph that `stream` is captured into. A thread of the driver's releases it
// once the graph, and all that was copied or instantiated of it, are destroyed and their launches
// are over; its destructor must not call CUDA. On an error `kept` is released at once.
Status KeepWithGraphOf(const Driver& driver, CUstream stream, std::shared_ptr<void> kept);

// Marks what one capture has for itself and the driver cannot release, because that calls CUDA. A
// graph may run whenever it exists, beside any other, so nobody else uses it until the hold is
// over; then its owner frees it, or gives it to another capture.
class CaptureHold {
 public:
  CaptureHold() = default;  // no capture's
  CaptureHold(const Driver& driver, const Capture& capture);

  bool IsOf(const Capture& capture) const { return number_ == capture.number; }
  // Whether the graph, and all that was copied or instantiated of it, are destroyed and their
  // launches are over. Never true where the driver cannot tell.
  bool IsOver() const { return ended_ != nullptr && ended_->load(); }

 private:
  cuuint64_t number_ = 0;  // 0: none
  std::shared_ptr<const std::atomic<bool>> ended_;
};

}  // namespace ucudnn::cuda
