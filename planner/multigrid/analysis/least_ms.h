// Measures the time of work that can be repeated, by its fastest run.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/status.h"

namespace ucudnn::multigrid {

// Calls work() `runs` times, and returns the ms of the fastest call. work() returns a Status. Fails
// if a call fails.
template <typename Work>
Result<double> LeastMs(int runs, const Work& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    UCUDNN_RETURN_IF_ERROR(work());
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - begin;
    least = std::min(least, taken.count());
  }
  return least;
}

}  // namespace ucudnn::multigrid
