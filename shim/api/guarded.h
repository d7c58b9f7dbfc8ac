// The edge of the hooks, which no exception passes.
#pragma once

#include "api/process.h"
#include "base/log.h"

namespace ucudnn {

// Returns inside(), or otherwise() if it ran out of memory. `inside` throws only before it has
// called the real function, or if that may be called again.
template <typename Inside, typename Otherwise>
cudnnStatus_t Guarded(Inside inside, Otherwise otherwise) noexcept {
  try {
    return inside();
  } catch (...) {
    WarnOnce("exception", ProcessInterposer()->process().splitter.splits()
                              ? "out of memory inside ucudnn: split calls fail"
                              : "out of memory inside ucudnn: calls run as the caller asked");
    return otherwise();
  }
}

}  // namespace ucudnn
