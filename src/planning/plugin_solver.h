// A solver of Workspace Division in a library of its own, opened at run time; solver_plugin.h
// declares what it exports. However many solvers a process opens, of whichever libraries, one
// solves at a time: the others wait.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "planning/division_solver.h"

namespace ucudnn::planning {

// The library at `path`, which stays open. `name` is what the solver is called; after `most_time`
// it is to say what it found. The error says why there is none.
Result<std::unique_ptr<DivisionSolver>> OpenPluginSolver(const std::string& path, const char* name,
                                                         std::chrono::milliseconds most_time);

}  // namespace ucudnn::planning
