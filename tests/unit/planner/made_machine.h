// Makes a machine for tests in which only the links matter.
#pragma once

#include <vector>

#include "planner/machine/machine.h"

namespace ucudnn::planner {

Machine MadeMachine(const std::vector<Level>& levels);

}  // namespace ucudnn::planner
