// Finds out whether another process still runs. Thread-compatible.
#pragma once

#include <sys/types.h>

#include "shim/host/nccl/file.h"

namespace hostgpu::nccl {

class ProcessWatch {
 public:
  // Watches no process; Gone() always returns false.
  ProcessWatch() = default;
  // REQUIRES: the process still runs, so that no other process has its number. If `process` is 0 or
  // less, as for a process of another PID namespace, no process is watched.
  explicit ProcessWatch(pid_t process);
  bool Gone() const;

 private:
  pid_t process_ = 0;
  File pidfd_;
};

}  // namespace hostgpu::nccl
