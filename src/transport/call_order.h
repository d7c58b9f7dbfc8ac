// Keeps what a channel enqueues in the order of its calls, whatever stream each call names.
// Thread-compatible; a channel's context is current.
#pragma once

#include "base/status.h"
#include "cuda/resources.h"

namespace ucudnn::transport {

class CallOrder {
 public:
  explicit CallOrder(const cuda::Driver& driver) : last_(driver) {}

  Status Create() { return last_.CreateUntimed(); }

  // Before the first thing that a call enqueues on `stream`.
  Status Begin(CUstream stream) {
    if (!called_ || stream == stream_) return Status::Ok();
    return last_.HoldBack(stream);
  }

  // Behind the last one, also of a call that failed on its way.
  Status End(CUstream stream) {
    called_ = true;
    stream_ = stream;
    return last_.Record(stream);
  }

  // Whether all that was enqueued is done, or never will be. Also for other threads.
  bool Done() const { return !last_.Pending(); }

 private:
  cuda::Event last_;
  CUstream stream_ = nullptr;
  bool called_ = false;
};

}  // namespace ucudnn::transport
