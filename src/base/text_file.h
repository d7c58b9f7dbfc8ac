// Reading files as they are: of /proc, too, whose processes end meanwhile.
#pragma once

#include <string>

#include "base/status.h"

namespace ucudnn {

// All bytes of a file or pipe of at most 1 GiB. An error names the path and the reason.
Result<std::string> ReadTextFile(const std::string& path);
// Empty where it cannot be read.
std::string TextFileOrEmpty(const std::string& path);

}  // namespace ucudnn
