// Explains why a command line is refused, and what would be right. Used from main's thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/status.h"

namespace ucudnn::command {

// Returns the innermost subcommand on the command line, or `ucudnn` itself if there is none.
const CLI::App& ChosenCommand(const CLI::App& ucudnn);

// Fails if an option is given more often than it may be, or if its value is another option, is
// empty, or was accepted only by an earlier version. Must be called after parsing `app`, even if
// parsing failed.
Status CheckWords(const CLI::App& app);

// Returns a text that says why parsing `ucudnn` failed.
std::string ExplainError(const CLI::App& ucudnn, const CLI::ParseError& error);

}  // namespace ucudnn::command
