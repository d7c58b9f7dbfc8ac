// An artificial cost of data that an engine has not just read.
// HOSTGPU_FIRST_TOUCH=ALGORITHM:MICROSECONDS makes a run of that algorithm take that many
// microseconds longer if its image differs from that of its last run, as if the image were not in
// the L2 cache. Measuring, which repeats one piece, does not notice this; whole calls do.
#pragma once

#include <atomic>
#include <chrono>

#include "shim/host/engines/engine.h"

namespace hostgpu {

class FirstTouch {
 public:
  // `setting` is the variable's value or null; an invalid one is reported on stderr, and costs
  // nothing. An algorithm has its number in the operation that runs.
  explicit FirstTouch(const char* setting);

  // Returns the additional time of a run. Thread-safe; all streams share the image that was touched
  // last.
  std::chrono::microseconds Cost(int algorithm, const void* image);

 private:
  static constexpr int kNone = -1;

  int algorithm_ = kNone;
  std::chrono::microseconds cost_{0};
  std::atomic<const void*> last_{nullptr};
};

// Called on the stream's worker before a run: takes the additional time. x and y are the run's; the
// image is dy in backward_data, and x otherwise.
void PayFirstTouch(Operation operation, int algorithm, const void* x, const void* y);

}  // namespace hostgpu
