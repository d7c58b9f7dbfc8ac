// Files that options name, looked at before anything is started that would need them: a mistyped
// path is told where it was typed, not by a program that runs for hours. Used from main's thread
// only.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "command/command.h"

namespace ucudnn::command {

// The folder above `path` that exists.
std::string NearestFolder(const std::string& path);

// Whether a file can be written at `path`, with the folders above it that are missing. What is
// there must be a file: a device or a pipe would be replaced.
Status CheckWritable(const std::string& path);

// Why a file that is there cannot serve as a measurement store; ok when it can.
Status CheckContents(const std::string& path);

// The same of a path that someone may have mistyped: all that is wrong with it, in one line.
Status CheckIsStore(const std::string& path);

// Whether the files that --report, --workspace-plan and --db name can serve a run: reports and
// measurements are written, a plan is read.
Status CheckFilesOfRun(const VariableOptions& variables);

// Stores behind the first are only read: one line for each that is not there.
std::vector<std::string> MissingStores(const VariableOptions& variables);

}  // namespace ucudnn::command
