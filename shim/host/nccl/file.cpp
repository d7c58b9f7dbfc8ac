#include "shim/host/nccl/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

namespace hostgpu::nccl {

Mapping::Mapping(const File& file, Access access) {
  struct stat status;
  const int seals = fcntl(file.number(), F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(file.number(), &status) != 0 ||
      status.st_size <= 0) {
    return;
  }
  const auto bytes = static_cast<size_t>(status.st_size);
  const int protection = access == Access::kWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const data = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, file.number(), 0);
  if (data == MAP_FAILED) return;
  madvise(data, bytes, MADV_DONTFORK);
  madvise(data, bytes, MADV_DONTDUMP);
  data_ = static_cast<char*>(data);
  bytes_ = bytes;
}

File NewSharedFile(size_t bytes) {
  File file(memfd_create("hostgpu-nccl", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.open() || ftruncate(file.number(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return File();
  }
  return file;
}

SharedFile SharedFileOf(const File& file) {
  struct stat status = {};
  fstat(file.number(), &status);
  return {getpid(), file.number(), status.st_ino};
}

File OpenShared(const SharedFile& shared, Mapping::Access access) {
  const std::string path =
      "/proc/" + std::to_string(shared.process) + "/fd/" + std::to_string(shared.number);
  const int mode = access == Mapping::Access::kWrite ? O_RDWR : O_RDONLY;
  File file(open(path.c_str(), mode | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!file.open() || fstat(file.number(), &status) != 0) return File();
  if (status.st_ino == shared.inode) return file;
  errno = ESTALE;
  return File();
}

}  // namespace hostgpu::nccl
