// The cuDNN functions that ucudnn answers itself; all others go straight to the real library.
#pragma once

#include <atomic>
#include <span>

namespace ucudnn {

struct Hook {
  const char* name;
  void* function;
  // Receives the address of the real function, which the hook may call. Null: the hook finds the
  // real function by itself.
  std::atomic<void*>* real = nullptr;
};

std::span<const Hook> Hooks();

}  // namespace ucudnn
