// --machine: a machine by its name or from a file. Used from main's thread only.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/machine/machine.h"

namespace ucudnn::command {

// Loads a built-in machine by its name (NAME:N for N nodes); another word is taken as a file. The
// error names --machine.
Result<planner::Machine> LoadMachine(const std::string& machine);

}  // namespace ucudnn::command
