// While the object exists, this thread's writes beyond the process's limit on the size of files
// (RLIMIT_FSIZE) fail with EFBIG, as writes to a full disk fail. Without the object such a write
// raises SIGXFSZ, which ends the process.
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
  sigset_t before_;       // the thread's signal mask before the constructor
  bool changed_ = false;  // whether the constructor has blocked SIGXFSZ
};

}  // namespace ucudnn
