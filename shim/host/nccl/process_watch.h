// Tells whether another process still runs. Thread-compatible.
#pragma once

#include <sys/types.h>

#include "shim/host/nccl/file.h"

namespace hostgpu::nccl {

class ProcessWatch {
 public:
  // Watches no process; Gone() is then always false.
  ProcessWatch() = default;
  // REQUIRES: the process is alive, so that no other process has taken its number. A number of
  // another namespace (0 or less) belongs to no process.
  explicit ProcessWatch(pid_t process);
  bool Gone() const;

 private:
  pid_t process_ = 0;
  File pidfd_;
};

}  // namespace hostgpu::nccl
