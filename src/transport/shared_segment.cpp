#include "transport/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/byte_size.h"
#include "base/text.h"

namespace ucudnn::transport {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Status SystemError(const std::string& action) {
  const int error = errno;
  return Status::Error(action + ": " + std::strerror(error));
}

}  // namespace

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) munmap(data_, bytes_);
  Close();
}

void SharedSegment::Close() {
  if (file_ >= 0) close(file_);
  file_ = -1;
}

Status SharedSegment::Map() {
  void* const mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) return SystemError("mapping shared memory");
  data_ = static_cast<char*>(mapped);
  // A forked child must not take part in its parent's exchange.
  madvise(data_, bytes_, MADV_DONTFORK);
  return Status::Ok();
}

Result<SharedSegment> SharedSegment::Make(size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  SharedSegment segment;
  segment.bytes_ = (bytes + page - 1) / page * page;
  segment.file_ = memfd_create("ucudnn", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (segment.file_ < 0) return SystemError("making shared memory");
  const auto length = static_cast<off_t>(segment.bytes_);
  // Allocates all pages now, because the process would be killed if the system could not provide a
  // page later.
  if (ftruncate(segment.file_, length) != 0 || fallocate(segment.file_, 0, 0, length) != 0 ||
      fcntl(segment.file_, F_ADD_SEALS, kSeals) != 0) {
    return SystemError("making shared memory of " + FormatByteSize(segment.bytes_));
  }
  UCUDNN_RETURN_IF_ERROR(segment.Map());
  return segment;
}

Result<std::string> SharedSegment::Key() const {
  struct stat status = {};
  if (fstat(file_, &status) != 0) return SystemError("asking for shared memory");
  return std::to_string(getpid()) + " " + std::to_string(file_) + " " +
         std::to_string(status.st_ino);
}

Result<SharedSegment> SharedSegment::Open(const std::string& key, size_t bytes) {
  const std::vector<std::string> words = Split(key, ' ');
  uint64_t process = 0, number = 0, inode = 0;
  if (words.size() != 3 || !ReadNumber(words[0], process) || !ReadNumber(words[1], number) ||
      !ReadNumber(words[2], inode)) {
    return Status::Error("no key of shared memory: " + Quoted(key));
  }
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  SharedSegment segment;
  segment.file_ = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  struct stat status = {};
  if (segment.file_ < 0 || fstat(segment.file_, &status) != 0) {
    return SystemError("opening the shared memory of process " + std::to_string(process));
  }
  segment.bytes_ = static_cast<size_t>(status.st_size);
  if (status.st_ino != inode || segment.bytes_ < bytes ||
      fcntl(segment.file_, F_GET_SEALS) != kSeals) {
    return Status::Error("process " + std::to_string(process) +
                         " has other shared memory than it says");
  }
  UCUDNN_RETURN_IF_ERROR(segment.Map());
  return segment;
}

}  // namespace ucudnn::transport
