// How many kernels a process remembers.
#pragma once

#include <cstddef>

namespace ucudnn::interposer {

// A kernel needs a few KiB of memory. The bound prevents endless growth in a program whose shapes
// never repeat.
constexpr size_t kMostKernels = 10000;

}  // namespace ucudnn::interposer
