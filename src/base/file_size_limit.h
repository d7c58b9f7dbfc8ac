// Under a limit on the size of files (RLIMIT_FSIZE), a write beyond it raises SIGXFSZ, which ends
// the process. While an object of this class exists, such a write of its thread fails with EFBIG
// instead, as on a full disk.
#pragma once

#include <signal.h>

namespace ucudnn {

class FileSizeLimitScope {
 public:
  FileSizeLimitScope();
  ~FileSizeLimitScope();
  FileSizeLimitScope(const FileSizeLimitScope&) = delete;
  FileSizeLimitScope& operator=(const FileSizeLimitScope&) = delete;

 private:
  sigset_t before_;       // the thread's mask
  bool changed_ = false;  // the signal was neither blocked nor pending before
};

}  // namespace ucudnn
