// Machines as JSON (format `ucudnn-machine`, described in FORMAT.md beside this file). Pure
// functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

// An error names the member that is missing, unknown, of another kind or out of range.
Result<Machine> ParseMachine(std::string_view json);

// Returns text that ParseMachine() reads back to an equal machine.
std::string FormatMachine(const Machine& machine);

}  // namespace ucudnn::planner
