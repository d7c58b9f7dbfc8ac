// Reads whole files. Also reads files of /proc, whose sizes are not known in advance, and whose
// processes may end while they are read.
#pragma once

#include <string>

#include "base/status.h"

namespace ucudnn {

// Returns all bytes of a file or pipe of at most 1 GiB. An error names the path and the reason.
Result<std::string> ReadTextFile(const std::string& path);
// Returns an empty text if the file cannot be read.
std::string TextFileOrEmpty(const std::string& path);

}  // namespace ucudnn
