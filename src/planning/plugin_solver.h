// Solvers of Workspace Division in libraries that are opened at run time; solver_plugin.h declares
// what they export. Only one plug-in of a process solves at a time; others wait, even if they are
// in different libraries.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "planning/division_solver.h"

namespace ucudnn::planning {

// Opens the library at `path` and never closes it. `name` is the solver's name. After `most_time`
// the solver returns the best selection so far. The error says why there is no solver.
Result<std::unique_ptr<DivisionSolver>> OpenPluginSolver(const std::string& path, const char* name,
                                                         std::chrono::milliseconds most_time);

}  // namespace ucudnn::planning
