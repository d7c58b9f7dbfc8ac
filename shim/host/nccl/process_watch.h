// Tells whether another process still runs. Thread-compatible.
#pragma once

#include <sys/types.h>

#include "shim/host/nccl/file.h"

namespace hostgpu::nccl {

class ProcessWatch {
 public:
  // Watches nobody, and is never gone.
  ProcessWatch() = default;
  // REQUIRES: the process is alive, so that the number is still its own. A number of another
  // namespace (0 or less) belongs to nobody.
  explicit ProcessWatch(pid_t process);
  bool Gone() const;

 private:
  pid_t process_ = 0;
  File pidfd_;
};

}  // namespace hostgpu::nccl
