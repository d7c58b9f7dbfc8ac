// Explains a command line that cannot be accepted: what is wrong, and what would be right. Used
// from main's thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/status.h"

namespace ucudnn::command {

// Returns the command that the words chose, or `ucudnn` itself.
const CLI::App& ChosenCommand(const CLI::App& ucudnn);

// Fails if an option is given twice, if the value of an option is another option, or if a value is
// empty, which would mean the same as no value. Must be called after parsing `app`, even if that
// failed.
Status CheckWords(const CLI::App& app);

// Returns a text that says why parsing `ucudnn` failed.
std::string ExplainError(const CLI::App& ucudnn, const CLI::ParseError& error);

}  // namespace ucudnn::command
