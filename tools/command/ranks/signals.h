// The signals that a job's launcher takes part in, to be polled instead of interrupting: its ranks'
// ends, those that it passes on, stopping and going on. Those that were ignored stay ignored. Used
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
  // Everything is as before. A signal that came and was not received acts now.
  ~JobSignals();

  Status Take();
  // As before: what is blocked and ignored. For a new process; the descriptor stays.
  void GiveBack() const;
  int descriptor() const { return descriptor_; }
  // The next signal; 0: none.
  int Receive();

  // Whether it asks a program to end.
  static bool Ends(int signal);

 private:
  sigset_t blocked_{};  // before
  struct sigaction broken_pipe_ {
  }, child_end_{};
  int descriptor_ = -1;
};

}  // namespace ucudnn::command
