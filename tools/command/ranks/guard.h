// A process that outlives ours, to end the ranks and what they started when ours is killed without
// a chance to do so. Used from main's thread only.
#pragma once

#include <sys/types.h>

#include "base/status.h"

namespace ucudnn::command {

class RankGuard {
 public:
  RankGuard() = default;
  RankGuard(const RankGuard&) = delete;
  RankGuard& operator=(const RankGuard&) = delete;
  // Where it was not dismissed, the guard does what it is there for.
  ~RankGuard() { Leave(); }

  Status Start();
  // From now on the session `rank` is killed when this process dies.
  void Watch(pid_t rank);
  // The guard ends, and nothing else.
  void Dismiss();

 private:
  void Leave();

  pid_t guard_ = -1;
  int pipe_ = -1;  // to the guard
};

}  // namespace ucudnn::command
