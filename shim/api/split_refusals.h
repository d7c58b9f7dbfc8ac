// Returns hooks that refuse functions when calls are split. These functions combine different
// positions of an image; because each rank holds only its stripe, their results would be wrong
// without an error. Functions that treat each position separately are forwarded.
#pragma once

#include <span>

#include "api/hooks.h"

namespace ucudnn {

std::span<const Hook> SplitRefusals();

}  // namespace ucudnn
