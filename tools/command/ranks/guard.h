// A child process of the launcher that outlives it. If the launcher is killed, and so cannot end
// the ranks, the guard kills all processes of the ranks' sessions. Used from main's thread only.
#pragma once

#include <sys/types.h>

#include "base/status.h"

namespace ucudnn::command {

class RankGuard {
 public:
  RankGuard() = default;
  RankGuard(const RankGuard&) = delete;
  RankGuard& operator=(const RankGuard&) = delete;
  // If Dismiss() was not called, the guard kills the sessions.
  ~RankGuard() { Leave(); }

  Status Start();
  // Adds the session of the process `rank` to those that the guard kills if this process dies.
  void Watch(pid_t rank);
  // Ends the guard without killing any session.
  void Dismiss();

 private:
  void Leave();

  pid_t guard_ = -1;
  int pipe_ = -1;  // to the guard
};

}  // namespace ucudnn::command
