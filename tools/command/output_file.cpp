#include "command/output_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "base/file_size_limit.h"
#include "base/folders.h"

namespace ucudnn::command {

int WriteOutput(const CLI::App& app, const std::string& text, const std::string& path) {
  if (path.empty()) {
    std::cout << text;
    return 0;
  }
  const auto fail = [&](const std::string& why) {
    return Refuse(app, "'" + path + "' cannot be written: " + why, kFailed);
  };
  if (const Status folders = CreateFoldersAbove(path, 0777); !folders.ok()) {
    return fail(folders.message());
  }
  const FileSizeLimitScope within_the_limit;
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  return file ? 0 : fail(std::strerror(errno));
}

}  // namespace ucudnn::command
