// The cuDNN functions ucudnn answers itself; all others go straight to the real library.
#pragma once

#include <atomic>
#include <span>

namespace ucudnn {

struct Hook {
  const char* name;
  void* function;
  // Where the real function is put, which the hook may call; null: it finds that by itself.
  std::atomic<void*>* real = nullptr;
};

std::span<const Hook> Hooks();

}  // namespace ucudnn
