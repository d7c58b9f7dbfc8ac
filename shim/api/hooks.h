// The cuDNN functions ucudnn answers itself; all others go straight to the real library.
#pragma once

#include <span>

namespace ucudnn {

struct Hook {
  const char* name;
  void* function;
};

std::span<const Hook> Hooks();

}  // namespace ucudnn
