// Creates the folders above a file that is to be written. Thread-safe.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"

namespace ucudnn {

// Creates the missing folders above `path`, with mode `mode` less the process's umask. The error
// names the folder that could not be created, not `path`.
Status CreateFoldersAbove(const std::string& path, mode_t mode);

}  // namespace ucudnn
