// Blocks all signals on this thread for a scope. A thread that ucudnn starts within the scope
// inherits the mask, so the program's signals are delivered to the program's own threads.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace ucudnn {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace ucudnn
