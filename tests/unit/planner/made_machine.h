// A machine of which only the links matter.
#pragma once

#include <vector>

#include "planner/machine/machine.h"

namespace ucudnn::planner {

Machine MadeMachine(const std::vector<Level>& levels);

}  // namespace ucudnn::planner
