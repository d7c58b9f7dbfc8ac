// A process that outlives this one. It ends the ranks, and the processes that they started, if this
// one is killed without a chance to do so. Used from main's thread only.
#pragma once

#include <sys/types.h>

#include "base/status.h"

namespace ucudnn::command {

class RankGuard {
 public:
  RankGuard() = default;
  RankGuard(const RankGuard&) = delete;
  RankGuard& operator=(const RankGuard&) = delete;
  // A guard that was not dismissed ends the ranks.
  ~RankGuard() { Leave(); }

  Status Start();
  // Kills the session `rank` when this process dies.
  void Watch(pid_t rank);
  // Ends the guard, and nothing else.
  void Dismiss();

 private:
  void Leave();

  pid_t guard_ = -1;
  int pipe_ = -1;  // to the guard
};

}  // namespace ucudnn::command
