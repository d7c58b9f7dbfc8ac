// The folders above a file that is about to be made. Thread-safe.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"

namespace ucudnn {

// Creates the folders above `path` that are missing, with `mode` as the process's umask leaves it.
// The error names the folder, but not `path`.
Status CreateFoldersAbove(const std::string& path, mode_t mode);

}  // namespace ucudnn
