// What the split calls of CUDA graph captures have on the device. A graph may run whenever it
// exists, beside any other call, so each capture has a stream, events and a buffer of its own until
// no graph of it can run any more. Then the next capture takes them; they are freed where the limit
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
  // What a call needs.
  struct Need {
    // A graph may launch what was compiled for it, so it lives as long as the capture's graphs.
    std::shared_ptr<const void> kernel;
    size_t bytes = 0;        // of the buffer
    size_t most_bytes = 0;   // the limit of all that the rank owns on the device
    size_t other_bytes = 0;  // what it owns beside captures, with what the call adds to that
  };

  // The resources for a call on `origin`, which is in `capture`. Earlier calls of the capture keep
  // what they were recorded with, and go before this one. `outside` are the resources of uncaptured
  // calls.
  Result<ExchangeResources*> Take(const cuda::Capture& capture, CUstream origin, const Need& need,
                                  const ExchangeResources& outside);
  size_t bytes() const;  // in all buffers

 private:
  struct Held {
    Held(const cuda::Driver& driver, const cudnn::Functions& functions)
        : device(driver, functions) {}
    cuda::CaptureHold hold;
    std::set<std::shared_ptr<const void>> kernels;
    ExchangeResources device;
  };
  // With a buffer of at least `bytes`, which is free, or new within the limit.
  Result<Held*> FreeOrNew(size_t bytes, const Need& need, const ExchangeResources& outside);

  std::list<Held> held_;  // in the order in which they were made
};

}  // namespace ucudnn::spatial
