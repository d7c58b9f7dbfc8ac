// Declares the hooks of all operations that ucudnn splits over ranks, except convolutions.
#pragma once

#include <span>

#include "api/hooks.h"

namespace ucudnn {

std::span<const Hook> SplitHooks();

}  // namespace ucudnn
