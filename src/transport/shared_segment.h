// Memory that ranks of one user on one machine share. It has no name in any file system, so nothing
// is left after its processes have ended in whatever way. No process can shrink it while it is
// used. Thread-compatible; movable.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "base/status.h"

namespace ucudnn::transport {

class SharedSegment {
 public:
  SharedSegment() = default;
  SharedSegment(SharedSegment&& other) noexcept { *this = std::move(other); }
  SharedSegment& operator=(SharedSegment&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~SharedSegment();

  // Makes a segment of zeros, of `bytes` rounded up to a multiple of the page size.
  static Result<SharedSegment> Make(size_t bytes);
  // Returns a text by which other processes can open the segment until Close is called.
  Result<std::string> Key() const;
  // Opens the segment of `key`. Fails unless `key` names a segment of at least `bytes` that cannot
  // shrink.
  static Result<SharedSegment> Open(const std::string& key, size_t bytes);

  // Keeps the memory, but no process can open the segment by its Key any more.
  void Close();

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  Status Map();

  char* data_ = nullptr;
  size_t bytes_ = 0;
  int file_ = -1;
};

}  // namespace ucudnn::transport
