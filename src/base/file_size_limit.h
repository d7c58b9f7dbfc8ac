// Where a process has a limit on the size of its files (RLIMIT_FSIZE), a write beyond it raises
// SIGXFSZ, which ends the process. While one of these is there, a write of this thread fails with
// EFBIG instead, as on a full disk.
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
  bool changed_ = false;  // the signal was not blocked, nor waiting, before
};

}  // namespace ucudnn
