// Adds an artificial cost for data that an engine did not read in its last run.
// HOSTGPU_FIRST_TOUCH=ALGORITHM:MICROSECONDS makes a run of that algorithm take this many
// microseconds longer if its image is not the image of the algorithm's last run, as if the image
// were not in the L2 cache. A measurement repeats one piece, so only its first run takes longer. In
// a call of several pieces, each piece takes longer.
#pragma once

#include <atomic>
#include <chrono>

#include "shim/host/engines/engine.h"

namespace hostgpu {

class FirstTouch {
 public:
  // `setting` is the variable's value, or null. An invalid value is reported on stderr and ignored.
  // The algorithm is given by its number in the enumeration of the operation that runs.
  explicit FirstTouch(const char* setting);

  // Returns the additional time of a run on `image`. Thread-safe; the image of the last run is
  // stored once for all streams.
  std::chrono::microseconds Cost(int algorithm, const void* image);

 private:
  static constexpr int kNone = -1;

  int algorithm_ = kNone;
  std::chrono::microseconds cost_{0};
  std::atomic<const void*> last_{nullptr};
};

// Waits for the additional time before a run; the stream's worker calls this. x and y are the
// buffers of the run, also if they hold dx or dy. The image that is touched is `y` in
// backward_data, and `x` otherwise.
void PayFirstTouch(Operation operation, int algorithm, const void* x, const void* y);

}  // namespace hostgpu
