// A process that outlives the launcher. If the launcher is killed, so that it cannot end the ranks,
// the guard kills all processes of the ranks' sessions. Used from main's thread only.
#pragma once

#include <sys/types.h>

#include "base/status.h"

namespace ucudnn::command {

class RankGuard {
 public:
  RankGuard() = default;
  RankGuard(const RankGuard&) = delete;
  RankGuard& operator=(const RankGuard&) = delete;
  // If Dismiss() was not called, the guard ends the ranks.
  ~RankGuard() { Leave(); }

  Status Start();
  // Makes the guard kill the session `rank` when this process dies.
  void Watch(pid_t rank);
  // Ends the guard, but not the ranks.
  void Dismiss();

 private:
  void Leave();

  pid_t guard_ = -1;
  int pipe_ = -1;  // to the guard
};

}  // namespace ucudnn::command
