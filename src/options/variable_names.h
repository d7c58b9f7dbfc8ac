// Finds names in the environment that look like variables of ucudnn but are none. Most of them are
// misspelt, and their values would silently have no effect. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn {

struct UnknownVariable {
  std::string what;    // what is wrong with the name
  std::string advice;  // what to do: use the name that is right, or unset the variable
};

// Returns none if `name` is a variable of ucudnn or of its tests and tools, or does not look like
// one.
std::optional<UnknownVariable> CheckVariableName(std::string_view name);

// UnknownSpatialVariables is for variables about splitting (IsSpatialVariable), with which no split
// call may run, and UnknownVariables for all others. Each function returns one line for each
// unknown variable of `environment`. If there are many, it returns lines for the first of them and
// a line with the number of the remaining ones. `environment` is an array like environ, of
// "NAME=value" with a null pointer at its end; it may be null itself. Variables with empty values
// count as unset.
std::vector<std::string> UnknownVariables(const char* const* environment);
std::vector<std::string> UnknownSpatialVariables(const char* const* environment);

}  // namespace ucudnn
