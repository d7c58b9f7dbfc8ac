// Returns further hooks for a process whose calls are split: operations other than convolutions
// that ucudnn splits too.
#pragma once

#include <span>

#include "api/hooks.h"

namespace ucudnn {

std::span<const Hook> SplitHooks();

}  // namespace ucudnn
