// Turns the signals that a job's launcher handles into a descriptor to poll: the ends of its ranks,
// signals that it passes on, stopping and continuing. Signals that were ignored stay ignored,
// except for SIGCHLD. Used from main's thread only.
#pragma once

#include <signal.h>

#include "base/status.h"

namespace ucudnn::command {

class JobSignals {
 public:
  JobSignals() = default;
  JobSignals(const JobSignals&) = delete;
  JobSignals& operator=(const JobSignals&) = delete;
  // Restores the former handling. A signal that came and was not received takes effect now.
  ~JobSignals();

  Status Take();
  // Restores the blocked and ignored signals in a new process; the descriptor stays open.
  void GiveBack() const;
  int descriptor() const { return descriptor_; }
  // Returns the next signal; 0 if there is none.
  int Receive();

  // Returns whether the signal asks a program to end.
  static bool Ends(int signal);

 private:
  sigset_t blocked_{};  // the former signal mask
  struct sigaction broken_pipe_ {
  }, child_end_{};
  int descriptor_ = -1;
};

}  // namespace ucudnn::command
