// A regular file that is open for reading, so that readers need not hold the whole file in memory.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace ucudnn::multigrid {

class DataFile {
 public:
  // Opens a file. Fails if it cannot be opened or is no regular file. The error is one line with
  // the path and the reason.
  static Result<DataFile> Open(const std::string& path);
  DataFile(DataFile&& other) noexcept;
  DataFile& operator=(DataFile&&) = delete;
  ~DataFile();

  const std::string& path() const { return path_; }
  // Returns the size of the file when it was opened. If the file becomes shorter, Read fails.
  uint64_t size() const { return size_; }

  // Fills `bytes` with the file's bytes from `offset` on. Fails if the file ends earlier or cannot
  // be read. The error is one line that begins with the path.
  Status Read(uint64_t offset, std::span<char> bytes) const;

  // Returns an error that begins with the path.
  Status Fault(const std::string& what) const { return Status::Error(path_ + ": " + what); }

  // Returns the file's descriptor, which the caller must close. REQUIRES: Read is not called
  // afterwards.
  int Release();

 private:
  DataFile(std::string path, uint64_t size, int descriptor);

  std::string path_;
  uint64_t size_;
  int descriptor_;  // -1 once released
};

}  // namespace ucudnn::multigrid
