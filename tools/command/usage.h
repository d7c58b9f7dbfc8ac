// Explains a command line that cannot be accepted: what is wrong with it and what would be right.
// Used from main's thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/status.h"

namespace ucudnn::command {

// Returns the command that the words chose, or `ucudnn` itself.
const CLI::App& ChosenCommand(const CLI::App& ucudnn);

// Refuses an option that is given twice, an option whose value is another option, and an empty
// value, which would mean the same as none. To be called after parsing `app`, even if that failed.
Status CheckWords(const CLI::App& app);

// Says why parsing `ucudnn` failed.
std::string ExplainError(const CLI::App& ucudnn, const CLI::ParseError& error);

}  // namespace ucudnn::command
