// Checks files that options name, before anything is started that would need them: a mistyped path
// is reported at once, not by a program that runs for hours. Used from main's thread only.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "command/command.h"

namespace ucudnn::command {

// Returns the nearest existing folder above `path`.
std::string NearestFolder(const std::string& path);

// Fails unless a file can be written at `path`, with the missing folders above it. If something
// exists there, it must be a file: a device or a pipe would be replaced.
Status CheckWritable(const std::string& path);

// Says why an existing file cannot serve as a measurement store; returns Ok if it can.
Status CheckContents(const std::string& path);

// Runs CheckContents for a path that may be mistyped, and describes everything wrong with it in one
// line.
Status CheckIsStore(const std::string& path);

// Fails unless the files of --report, --workspace-plan and --db can serve a run: reports and
// measurements are written, a plan is read.
Status CheckFilesOfRun(const VariableOptions& variables);

// Returns one line for each missing store behind the first one: those are only read.
std::vector<std::string> MissingStores(const VariableOptions& variables);

}  // namespace ucudnn::command
