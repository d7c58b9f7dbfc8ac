// Finds names in the environment that look like variables of ucudnn but are none: mostly misspelt
// names, whose values would silently have no effect. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn {

struct UnknownVariable {
  std::string what;    // what is wrong with the name
  std::string advice;  // which name would be right
};

// Returns none if `name` is a variable of ucudnn or of its tests and tools, or does not look like
// one.
std::optional<UnknownVariable> CheckVariableName(std::string_view name);

// Both return one line for each unknown variable of `environment` (an array like environ:
// "NAME=value" and null at its end; may be null itself); if there are many, lines for the first
// ones and their number. Empty values count as unset. UnknownSpatialVariables returns the variables
// about splitting (IsSpatialVariable), with which nothing may run; UnknownVariables returns the
// others.
std::vector<std::string> UnknownVariables(const char* const* environment);
std::vector<std::string> UnknownSpatialVariables(const char* const* environment);

}  // namespace ucudnn
