#include "shim/host/nccl/process_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace hostgpu::nccl {
namespace {

// SYS_pidfd_open on every architecture; older headers lack the name.
constexpr long kPidfdOpen = 434;

}  // namespace

ProcessWatch::ProcessWatch(pid_t process)
    : process_(process),
      pidfd_(process > 0 ? static_cast<int>(syscall(kPidfdOpen, process, 0u)) : -1) {}

bool ProcessWatch::Gone() const {
  if (process_ <= 0) return false;
  if (pidfd_.open()) {
    pollfd watched{pidfd_.number(), POLLIN, 0};
    return poll(&watched, 1, 0) == 1;
  }
  // For Linux before 5.3, which has no pidfd_open. A zombie process counts as running.
  return kill(process_, 0) != 0 && errno == ESRCH;
}

}  // namespace hostgpu::nccl
