// Where a command puts a document: a file that -o names, else the terminal.
#pragma once

#include <string>

#include "command/command.h"

namespace ucudnn::command {

// The exit code: 1 where the file cannot be written, which is said. Folders above it that are
// missing are made. Empty `path`: stdout, which main looks after.
int WriteOutput(const CLI::App& app, const std::string& text, const std::string& path);

}  // namespace ucudnn::command
