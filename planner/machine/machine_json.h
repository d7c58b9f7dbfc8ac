// Machines as JSON (format `ucudnn-machine`, described in FORMAT.md beside this file). Pure
// functions.
#pragma once

#include <string_view>

#include "base/status.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

// An error names the member that is missing, unknown, of another kind or out of range.
Result<Machine> ParseMachine(std::string_view json);

}  // namespace ucudnn::planner
