// The entry points that are joined to the others only where calls are split: what a program makes
// beside convolutions, and ucudnn splits, too.
#pragma once

#include <span>

#include "api/hooks.h"

namespace ucudnn {

std::span<const Hook> SplitHooks();

}  // namespace ucudnn
