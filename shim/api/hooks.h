// The list of cuDNN functions that ucudnn answers itself. The drop-in sends all other calls to the
// real library.
#pragma once

#include <atomic>
#include <span>

namespace ucudnn {

struct Hook {
  const char* name;
  void* function;
  // If not null, the drop-in's filling (dropin_fill.cpp) stores the real function's address here,
  // for the hook to call. Null: the hook gets the real function in another way.
  std::atomic<void*>* real = nullptr;
};

std::span<const Hook> Hooks();

}  // namespace ucudnn
