// Names of the environment that look like variables of ucudnn and are none: mostly misspelt ones,
// which would change nothing without a word. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn {

struct UnknownVariable {
  std::string what;    // is wrong with it
  std::string advice;  // what would be right
};

// None where `name` is a variable of ucudnn, of its tests or tools, or of something else.
std::optional<UnknownVariable> CheckVariableName(std::string_view name);

// One line for each unknown variable of `environment` (as environ: "NAME=value", null at its end;
// null itself where it is empty), of many the first. Empty values count as unset. Those about
// splitting (IsSpatialVariable) are told apart: with them nothing may run.
std::vector<std::string> UnknownVariables(const char* const* environment);
std::vector<std::string> UnknownSpatialVariables(const char* const* environment);

}  // namespace ucudnn
