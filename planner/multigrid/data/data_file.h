// A regular file of data that is open for reading, so that readers hold no more of it than they
// decode. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace ucudnn::multigrid {

class DataFile {
 public:
  // The error is one line with the path and the reason.
  static Result<DataFile> Open(const std::string& path);
  DataFile(DataFile&& other) noexcept;
  DataFile& operator=(DataFile&&) = delete;
  ~DataFile();

  const std::string& path() const { return path_; }
  // Bytes when it was opened: one that becomes shorter gives an error when it is read.
  uint64_t size() const { return size_; }

  // Fills `bytes` with those from `offset` on. The error is one line that begins with the path: the
  // file ends before, or it cannot be read.
  Status Read(uint64_t offset, std::span<char> bytes) const;

  // An error that begins with the path.
  Status Fault(const std::string& what) const { return Status::Error(path_ + ": " + what); }

  // The file's descriptor, which the caller closes from now on. No Read follows.
  int Release();

 private:
  DataFile(std::string path, uint64_t size, int descriptor);

  std::string path_;
  uint64_t size_;
  int descriptor_;  // -1: released
};

}  // namespace ucudnn::multigrid
