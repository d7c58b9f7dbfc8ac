// What a process whose calls are split refuses by name: functions of cuDNN that look beyond one
// position of an image, of which each rank holds only its stripe. Their own result would be wrong
// without a word. What visits every element by itself, or channels alone, is the real library's.
#pragma once

#include <span>

#include "api/hooks.h"

namespace ucudnn {

std::span<const Hook> SplitRefusals();

}  // namespace ucudnn
