// The list of cuDNN functions that ucudnn answers itself. The drop-in sends all other calls to the
// real library.
#pragma once

#include <atomic>
#include <span>

namespace ucudnn {

struct Hook {
  const char* name;
  void* function;
  // The library stores the real function's address in `*real`; the hook may call it. Null: the hook
  // gets the real function in another way.
  std::atomic<void*>* real = nullptr;
};

std::span<const Hook> Hooks();

}  // namespace ucudnn
