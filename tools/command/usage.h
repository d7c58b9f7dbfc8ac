// What a command line that cannot be taken means, in words: what is wrong with it and what would be
// right. Used from main's thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/status.h"

namespace ucudnn::command {

// The command that the words chose, or `ucudnn` itself.
const CLI::App& ChosenCommand(const CLI::App& ucudnn);

// Refuses an option that is given twice, one that has another option for its value, and an empty
// value, which would mean the same as none. After parsing `app`, also where that failed.
Status CheckWords(const CLI::App& app);

// Why parsing `ucudnn` failed.
std::string ExplainError(const CLI::App& ucudnn, const CLI::ParseError& error);

}  // namespace ucudnn::command
