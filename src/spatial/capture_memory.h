// The device resources of split calls inside CUDA graph captures. A graph may run at any time while
// it exists, at the same time as any other call. So each capture has a stream, events and a buffer
// of its own until none of its graphs can run any more. Then a later capture reuses these
// resources. They are freed if a larger buffer would otherwise exceed the limit. Not thread-safe: a
// rank makes one call at a time.
#pragma once

#include <list>
#include <memory>
#include <set>

#include "cuda/capture.h"
#include "spatial/split_kernel.h"

namespace ucudnn::spatial {

class CaptureMemory {
 public:
  // What a call needs on the device, and how much memory the rank may own there.
  struct Need {
    // The call's kernel. It must exist as long as a graph of the capture may run.
    std::shared_ptr<const void> kernel;
    size_t bytes = 0;        // size of the buffer
    size_t most_bytes = 0;   // the limit for all memory that the rank owns on the device
    size_t other_bytes = 0;  // the rank's other memory, including what this call adds
  };

  // Returns the resources for a call on `origin`, which is in `capture`. If the buffer of the
  // capture's earlier calls is too small, this call gets other resources, and the earlier calls
  // keep theirs. The work of this call then follows the work of the earlier calls. `outside` has
  // the resources of calls that are not captured.
  Result<ExchangeResources*> Take(const cuda::Capture& capture, CUstream origin, const Need& need,
                                  const ExchangeResources& outside);
  size_t bytes() const;  // sum over all buffers

 private:
  struct Held {
    Held(const cuda::Driver& driver, const cudnn::Functions& functions)
        : device(driver, functions) {}
    cuda::CaptureHold hold;
    std::set<std::shared_ptr<const void>> kernels;
    ExchangeResources device;
  };
  // Returns unused resources with a buffer of at least `bytes`. If there are none, makes new
  // resources within the limit.
  Result<Held*> FreeOrNew(size_t bytes, const Need& need, const ExchangeResources& outside);

  std::list<Held> held_;  // in the order in which they were made
};

}  // namespace ucudnn::spatial
