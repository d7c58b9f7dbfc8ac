// Classes that own file descriptors and mappings of files.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace hostgpu::nccl {

class File {
 public:
  explicit File(int number = -1) : number_(number) {}
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~File() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }
  bool open() const { return number_ >= 0; }

 private:
  int number_;
};

// A mapping of all bytes of a file. The file must be sealed, so that no other process can shrink
// it. A forked child does not inherit the mapping.
class Mapping {
 public:
  enum class Access { kRead, kWrite };
  Mapping() = default;
  // The mapping is empty (data() is null) if the file can shrink or has no bytes, or if the system
  // refuses.
  Mapping(const File& file, Access access);
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (data_) munmap(data_, bytes_);
  }
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

// Returns a new sealed file of `bytes` zero bytes that is in no file system. The File is not open
// if the system refuses.
File NewSharedFile(size_t bytes);

// Identifies a file that this process has open, so that other processes of the same user can open
// it by OpenShared.
struct SharedFile {
  int32_t process;
  int32_t number;
  uint64_t inode;
};
SharedFile SharedFileOf(const File& file);
// Opens a shared file. The result is not open, and errno gives the reason, if the process no longer
// has the file open.
File OpenShared(const SharedFile& shared, Mapping::Access access);

}  // namespace hostgpu::nccl
