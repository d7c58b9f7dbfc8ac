// Receives the launcher's signals through a descriptor that can be polled: the ends of ranks, and
// signals to pass on to the ranks. Signals that were ignored stay ignored, except for SIGCHLD. Used
// from main's thread only.
#pragma once

#include <signal.h>

#include "base/status.h"

namespace ucudnn::command {

class JobSignals {
 public:
  JobSignals() = default;
  JobSignals(const JobSignals&) = delete;
  JobSignals& operator=(const JobSignals&) = delete;
  // Restores the signal handling from before Take(). A signal that was not received takes effect
  // now.
  ~JobSignals();

  Status Take();
  // Restores the signal handling from before Take(), for a new process. The descriptor stays open.
  void GiveBack() const;
  int descriptor() const { return descriptor_; }
  // Returns the next signal; 0 if there is none.
  int Receive();

  // Returns whether `signal` asks a program to end.
  static bool Ends(int signal);

 private:
  sigset_t blocked_{};  // the former signal mask
  struct sigaction broken_pipe_ {
  }, child_end_{};
  int descriptor_ = -1;
};

}  // namespace ucudnn::command
