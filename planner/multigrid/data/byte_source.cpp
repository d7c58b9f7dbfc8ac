#include "planner/multigrid/data/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ucudnn::multigrid {
namespace {

// Owns the descriptor.
class FileBytes final : public ByteSource {
 public:
  FileBytes(const std::string& path, uint64_t size, int descriptor)
      : ByteSource(path, size), descriptor_(descriptor) {}
  ~FileBytes() override { close(descriptor_); }

 private:
  Status ReadInside(uint64_t offset, std::span<char> bytes) const override {
    while (!bytes.empty()) {
      const ssize_t length =
          pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (length < 0 && errno == EINTR) continue;
      if (length < 0) return Fault(std::string("cannot be read: ") + std::strerror(errno));
      if (length == 0) {
        return Fault(std::to_string(offset) + " bytes; expected the " + std::to_string(size()) +
                     " that it had when it was opened");
      }
      bytes = bytes.subspan(static_cast<size_t>(length));
      offset += static_cast<uint64_t>(length);
    }
    return Status::Ok();
  }

  const int descriptor_;
};

}  // namespace

Status ByteSource::Read(uint64_t offset, std::span<char> bytes) const {
  if (offset > size_ || bytes.size() > size_ - offset) {
    return Fault(std::to_string(size_) + " bytes; expected " + std::to_string(bytes.size()) +
                 " more at byte " + std::to_string(offset));
  }
  return ReadInside(offset, bytes);
}

Status MemoryBytes::ReadInside(uint64_t offset, std::span<char> bytes) const {
  const std::string_view part = bytes_.substr(offset, bytes.size());
  std::copy(part.begin(), part.end(), bytes.begin());
  return Status::Ok();
}

Result<std::unique_ptr<ByteSource>> OpenByteSource(const std::string& path) {
  // Opening a pipe that nobody writes to would wait for ever.
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
  return std::unique_ptr<ByteSource>(
      std::make_unique<FileBytes>(path, static_cast<uint64_t>(status.st_size), descriptor));
}

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return number;
}

}  // namespace ucudnn::multigrid
