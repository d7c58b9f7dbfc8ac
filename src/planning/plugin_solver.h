// A solver of Workspace Division in a library of its own, opened at run time; solver_plugin.h
// declares what it exports.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "planning/division_solver.h"

namespace ucudnn::planning {

// The library at `path`, which stays open. `name` is what the solver is called. The error says why
// there is none.
Result<std::unique_ptr<DivisionSolver>> OpenPluginSolver(const std::string& path, const char* name);

}  // namespace ucudnn::planning
