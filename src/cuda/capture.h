// Finds the CUDA graph into which a stream is captured, and keeps objects as long as that graph
// exists. Thread-safe.
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

// Returns the capture that `stream` is in; none if it is in no capture, or in an invalidated one.
std::optional<Capture> CaptureOf(const Driver& driver, CUstream stream);

// Gives `kept` to the graph that `stream` is captured into. Once the graph, its copies and its
// instances are destroyed and their launches are over, a thread of the driver releases `kept`. CUDA
// must not be called on that thread, so the destructor of the kept object must not call CUDA. On an
// error `kept` is released immediately.
Status KeepWithGraphOf(const Driver& driver, CUstream stream, std::shared_ptr<void> kept);

// Records to which capture a resource belongs, if releasing the resource calls CUDA
// (KeepWithGraphOf cannot release such a resource). While the capture's graph exists, it may run at
// any time, also at the same time as other graphs. So nothing else may use the resource until
// IsOver() returns true. Then the owner frees the resource, or gives it to another capture.
class CaptureHold {
 public:
  CaptureHold() = default;  // the resource belongs to no capture
  CaptureHold(const Driver& driver, const Capture& capture);

  bool IsOf(const Capture& capture) const { return number_ == capture.number; }
  // Returns true once the graph, its copies and its instances are destroyed and their launches are
  // over. Stays false if the driver cannot report this.
  bool IsOver() const { return ended_ != nullptr && ended_->load(); }

 private:
  cuuint64_t number_ = 0;  // 0: the resource belongs to no capture
  std::shared_ptr<const std::atomic<bool>> ended_;
};

}  // namespace ucudnn::cuda
