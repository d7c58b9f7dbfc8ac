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
  // If the signal is already pending, it is the program's own, and the destructor must not consume
  // it. So nothing is blocked.
  if (sigpending(&waiting) != 0 || sigismember(&waiting, SIGXFSZ) != 0) return;
  if (pthread_sigmask(SIG_BLOCK, &signals, &before_) != 0) return;
  changed_ = true;
}

FileSizeLimitScope::~FileSizeLimitScope() {
  if (!changed_) return;
  const sigset_t signals = TheSignal();
  const timespec at_once = {};
  // A failed write has sent the signal to this thread. sigtimedwait consumes the signal, so that
  // pthread_sigmask does not deliver it.
  while (sigtimedwait(&signals, nullptr, &at_once) == SIGXFSZ) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace ucudnn
