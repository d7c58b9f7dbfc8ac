// The functions of cuDNN that a process whose calls are split refuses by name. They read beyond one
// position of an image, of which each rank holds only its stripe, so their results would silently
// be wrong. Functions that visit each element, or only channels, are forwarded.
#pragma once

#include <span>

#include "api/hooks.h"

namespace ucudnn {

std::span<const Hook> SplitRefusals();

}  // namespace ucudnn
