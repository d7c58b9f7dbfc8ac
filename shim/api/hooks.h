// The list of cuDNN functions that ucudnn answers itself. The drop-in sends all other calls to the
// real library.
#pragma once

#include <cudnn.h>

#include <atomic>
#include <span>

namespace ucudnn {

struct Hook {
  const char* name;
  void* function;
  // If not null, ucudnnPrivateFillDropin stores the real function's address here, for the hook to
  // call. If null, the hook gets the real function in another way.
  std::atomic<void*>* real = nullptr;
};

std::span<const Hook> Hooks();

// Tells the user once that memory ran out inside a hook.
void WarnOutOfMemory();

// Returns inside(), or otherwise() if inside() ran out of memory. So no exception leaves a hook,
// whose caller may be a C program. REQUIRES: `inside` does not throw after it has called the real
// function, unless a second call of that function by `otherwise` does no harm.
template <typename Inside, typename Otherwise>
cudnnStatus_t Guarded(Inside inside, Otherwise otherwise) noexcept {
  try {
    return inside();
  } catch (...) {
    WarnOutOfMemory();
    return otherwise();
  }
}

}  // namespace ucudnn
