// Checks files that options name, before a program that needs them is started, so that a mistyped
// path is reported at once and not after hours. Used from main's thread only.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "command/command.h"

namespace ucudnn::command {

// Returns the nearest existing folder above `path`.
std::string NearestFolder(const std::string& path);

// Fails unless a file can be written at `path`, with the missing folders above it. Something that
// exists there must be a file, because a device or a pipe would be replaced.
Status CheckWritable(const std::string& path);

// Fails, with the reason, if an existing file cannot serve as a measurement store.
Status CheckContents(const std::string& path);

// Runs CheckContents for a path that may be mistyped. The error is one line with everything that is
// wrong with the path.
Status CheckIsStore(const std::string& path);

// Fails unless a run can use the files of --report, --workspace-plan and --db. A run writes reports
// and measurements, and reads a plan.
Status CheckFilesOfRun(const VariableOptions& variables);

// Returns a line for each missing store after the first one. Runs only read these stores, and so do
// not create them.
std::vector<std::string> MissingStores(const VariableOptions& variables);

}  // namespace ucudnn::command
