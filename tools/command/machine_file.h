// The value of --machine: the name of a machine, or a file. Used from main's thread only.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/machine/machine.h"

namespace ucudnn::command {

// Returns the built-in machine `machine` (NAME, or NAME:N for N nodes). If there is no machine of
// that name, `machine` is the path of a file. The error names --machine.
Result<planner::Machine> LoadMachine(const std::string& machine);

}  // namespace ucudnn::command
