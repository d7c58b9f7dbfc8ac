#include "shim/host/nccl/file.h"

#include <fcntl.h>
#include <sys/stat.h>

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

}  // namespace hostgpu::nccl
