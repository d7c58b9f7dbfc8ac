#include "command/output_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "base/file_size_limit.h"

namespace ucudnn::command {

int WriteOutput(const CLI::App& app, const std::string& text, const std::string& path) {
  if (path.empty()) {
    std::cout << text << std::flush;
    if (std::cout) return 0;
    Refuse(app, std::string("cannot be printed: ") + std::strerror(errno));
    return 1;
  }
  const FileSizeLimitScope within_the_limit;
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (file) return 0;
  Refuse(app, "'" + path + "' cannot be written: " + std::strerror(errno));
  return 1;
}

}  // namespace ucudnn::command
