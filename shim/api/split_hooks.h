// Declares the hooks of operations other than convolutions that ucudnn splits over ranks.
#pragma once

#include <span>

#include "api/hooks.h"

namespace ucudnn {

std::span<const Hook> SplitHooks();

}  // namespace ucudnn
