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

// Fails unless a file can be written at `path`. Missing folders are no failure if they can be made.
// Fails if something other than a regular file exists at `path`: a device or a pipe would be
// replaced.
Status CheckWritable(const std::string& path);

// Fails, with the reason, if the existing file at `path` cannot be used as a measurement store.
Status CheckContents(const std::string& path);

// Fails unless `path` is a regular file that CheckContents accepts. The error is one line that
// names the path.
Status CheckIsStore(const std::string& path);

// Fails unless a run can write the file of --report, read that of --workspace-plan, and create the
// first store of --db if it does not exist.
Status CheckFilesOfRun(const VariableOptions& variables);

// Returns a line for each store of --db, except the first, that does not exist. A run creates only
// the first store.
std::vector<std::string> MissingStores(const VariableOptions& variables);

}  // namespace ucudnn::command
