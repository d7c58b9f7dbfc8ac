// Starts threads that block all signals, so that the application's threads get the application's
// signals.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace hostgpu::nccl {

// Throws std::system_error if no thread can be started, as std::thread does.
template <class Body>
std::thread QuietThread(Body body) {
  struct Blocked {
    Blocked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  };
  const Blocked blocked;
  return std::thread(std::move(body));
}

}  // namespace hostgpu::nccl
