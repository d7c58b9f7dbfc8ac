#include "shim/host/nccl/process_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace hostgpu::nccl {
namespace {

constexpr long kPidfdOpen = 434;  // the same on every architecture; older headers lack its name

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
  // This serves Linux before 5.3. A process whose end was not collected counts as running.
  return kill(process_, 0) != 0 && errno == ESRCH;
}

}  // namespace hostgpu::nccl
