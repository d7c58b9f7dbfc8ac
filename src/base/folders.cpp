#include "base/folders.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace ucudnn {

Status CreateFoldersAbove(const std::string& path, mode_t mode) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    struct stat info;
    if (stat(folder.c_str(), &info) == 0) {
      if (!S_ISDIR(info.st_mode)) return Status::Error(folder + " is not a folder");
      continue;
    }
    if (mkdir(folder.c_str(), mode) != 0 && errno != EEXIST) {
      return Status::Error("cannot create the folder " + folder + ": " + std::strerror(errno));
    }
  }
  return Status::Ok();
}

}  // namespace ucudnn
