// Entry points that are added only if calls are split: operations beside convolutions that ucudnn
// splits, too.
#pragma once

#include <span>

#include "api/hooks.h"

namespace ucudnn {

std::span<const Hook> SplitHooks();

}  // namespace ucudnn
