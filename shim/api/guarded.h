// Keeps C++ exceptions from leaving the hooks, whose callers may be C programs.
#pragma once

#include "api/process.h"
#include "base/log.h"

namespace ucudnn {

// Returns inside(), or otherwise() if inside() ran out of memory. `inside` may throw only before it
// calls the real function, or if that function may be called once more.
template <typename Inside, typename Otherwise>
cudnnStatus_t Guarded(Inside inside, Otherwise otherwise) noexcept {
  try {
    return inside();
  } catch (...) {
    WarnOnce("exception", ProcessInterposer()->splitter().splits()
                              ? "out of memory inside ucudnn: split calls fail"
                              : "out of memory inside ucudnn: calls run as the caller asked");
    return otherwise();
  }
}

}  // namespace ucudnn
