// Solvers of Workspace Division in libraries that are opened at run time. solver_plugin.h declares
// what such a library exports. At most one plug-in of the process solves at a time, and the others
// wait, even plug-ins in other libraries.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "planning/division_solver.h"

namespace ucudnn::planning {

// Opens the library at `path`, and never closes it. Name() of the solver returns `name`; the caller
// keeps `name` alive. After `most_time` the solver returns the best selection that it has found so
// far. Fails, with the reason, if the library cannot be used.
Result<std::unique_ptr<DivisionSolver>> OpenPluginSolver(const std::string& path, const char* name,
                                                         std::chrono::milliseconds most_time);

}  // namespace ucudnn::planning
