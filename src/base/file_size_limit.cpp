#include "base/file_size_limit.h"

#include <pthread.h>
#include <sys/resource.h>

#include <ctime>

namespace ucudnn {
namespace {

sigset_t TheSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGXFSZ);
  return signals;
}

}  // namespace

FileSizeLimitScope::FileSizeLimitScope() {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY) return;
  const sigset_t signals = TheSignal();
  sigset_t waiting;
  // A signal that is already pending is the program's own. The destructor must not consume it, so
  // nothing is blocked.
  if (sigpending(&waiting) != 0 || sigismember(&waiting, SIGXFSZ) != 0) return;
  if (pthread_sigmask(SIG_BLOCK, &signals, &before_) != 0) return;
  changed_ = true;
}

FileSizeLimitScope::~FileSizeLimitScope() {
  if (!changed_) return;
  const sigset_t signals = TheSignal();
  const timespec at_once = {};
  // A failed write sends the signal to the writing thread. sigtimedwait consumes the signal;
  // otherwise pthread_sigmask would deliver it.
  while (sigtimedwait(&signals, nullptr, &at_once) == SIGXFSZ) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace ucudnn
