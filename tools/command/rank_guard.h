// A process that outlives ours, to end the ranks when ours is killed without a chance to do so.
// Each rank is a process group; what its program started is in it. Used from main's thread only.
#pragma once

#include <sys/types.h>

#include "base/status.h"

namespace ucudnn::command {

class RankGuard {
 public:
  RankGuard() = default;
  RankGuard(const RankGuard&) = delete;
  RankGuard& operator=(const RankGuard&) = delete;
  ~RankGuard() { Dismiss(); }

  Status Start();
  // From now on the group `rank` is killed when this process dies.
  void Watch(pid_t rank);
  // The guard ends, and nothing else.
  void Dismiss();

 private:
  pid_t guard_ = -1;
  int pipe_ = -1;  // to the guard
};

}  // namespace ucudnn::command
