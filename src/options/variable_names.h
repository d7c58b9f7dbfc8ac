// Finds names in the environment that look like variables of ucudnn but are none: mostly misspelt
// ones, which would silently change nothing. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn {

struct UnknownVariable {
  std::string what;    // what is wrong with it
  std::string advice;  // what would be right
};

// Returns none if `name` is a variable of ucudnn, of its tests or tools, or of something else.
std::optional<UnknownVariable> CheckVariableName(std::string_view name);

// Returns one line for each unknown variable of `environment` ("NAME=value", null at its end, as
// environ; itself null if empty); of many variables, lines for the first ones and their number.
// Empty values count as unset. UnknownSpatialVariables returns the variables about splitting
// (IsSpatialVariable), with which nothing may run; UnknownVariables returns the others.
std::vector<std::string> UnknownVariables(const char* const* environment);
std::vector<std::string> UnknownSpatialVariables(const char* const* environment);

}  // namespace ucudnn
