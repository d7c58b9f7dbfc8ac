#include "planner/multigrid/data/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ucudnn::multigrid {

DataFile::DataFile(std::string path, uint64_t size, int descriptor)
    : path_(std::move(path)), size_(size), descriptor_(descriptor) {}

DataFile::DataFile(DataFile&& other) noexcept
    : path_(std::move(other.path_)), size_(other.size_), descriptor_(other.Release()) {}

DataFile::~DataFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

int DataFile::Release() { return std::exchange(descriptor_, -1); }

Result<DataFile> DataFile::Open(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe without a writer would wait for ever.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return Status::Error(path + ": cannot be opened: " + std::strerror(errno));
  }
  struct stat status = {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    return Status::Error(path + (S_ISDIR(status.st_mode) ? ": a folder" : ": no regular file") +
                         "; expected a file");
  }
  return DataFile(path, static_cast<uint64_t>(status.st_size), descriptor);
}

Status DataFile::Read(uint64_t offset, std::span<char> bytes) const {
  while (!bytes.empty()) {
    const ssize_t length =
        pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return Fault(std::string("cannot be read: ") + std::strerror(errno));
    if (length == 0) {
      return Fault(std::to_string(offset) + " bytes; expected " + std::to_string(bytes.size()) +
                   " more");
    }
    bytes = bytes.subspan(static_cast<size_t>(length));
    offset += static_cast<uint64_t>(length);
  }
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
