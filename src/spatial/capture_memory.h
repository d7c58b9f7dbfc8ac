// The device resources of split calls inside CUDA graph captures. A graph may run at any time while
// it exists, beside any other call, so each capture has its own stream, events and buffer until no
// graph of it can run any more. Then the next capture takes them; they are freed if the limit
// leaves no room for others. Not thread-safe: a rank makes one call at a time.
#pragma once

#include <list>
#include <memory>
#include <set>

#include "cuda/capture.h"
#include "spatial/split_kernel.h"

namespace ucudnn::spatial {

class CaptureMemory {
 public:
  // The needs of a call.
  struct Need {
    // What was compiled for the call. A graph may launch it, so it lives as long as the capture's
    // graphs.
    std::shared_ptr<const void> kernel;
    size_t bytes = 0;        // of the buffer
    size_t most_bytes = 0;   // the limit of all memory that the rank owns on the device
    size_t other_bytes = 0;  // other memory of the rank, including what the call adds
  };

  // Returns the resources for a call on `origin`, which is in `capture`. Earlier calls of the
  // capture keep the resources with which they were recorded, and run before this one. `outside`
  // are the resources of calls that are not captured.
  Result<ExchangeResources*> Take(const cuda::Capture& capture, CUstream origin, const Need& need,
                                  const ExchangeResources& outside);
  size_t bytes() const;  // of all buffers

 private:
  struct Held {
    Held(const cuda::Driver& driver, const cudnn::Functions& functions)
        : device(driver, functions) {}
    cuda::CaptureHold hold;
    std::set<std::shared_ptr<const void>> kernels;
    ExchangeResources device;
  };
  // Returns resources with a buffer of at least `bytes`: free ones, or new ones within the limit.
  Result<Held*> FreeOrNew(size_t bytes, const Need& need, const ExchangeResources& outside);

  std::list<Held> held_;  // in the order of their creation
};

}  // namespace ucudnn::spatial
