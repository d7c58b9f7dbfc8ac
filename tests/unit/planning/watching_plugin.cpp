// This solver plug-in selects each kernel's first choice, reports its time limit as its gap, and
// fails if calls overlap.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "planning/solver_plugin.h"

namespace {

std::atomic<int> inside = 0;

}  // namespace

extern "C" __attribute__((visibility("default"))) int ucudnnSolveDivision(
    size_t kernels, const size_t*, const size_t*, const double*, size_t, int most_milliseconds,
    size_t* chosen, double* gap_ms, char* message, size_t message_bytes) {
  const bool alone = inside.fetch_add(1) == 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  inside.fetch_sub(1);
  for (size_t kernel = 0; kernel < kernels; ++kernel) chosen[kernel] = 0;
  *gap_ms = most_milliseconds;
  std::snprintf(message, message_bytes, "calls overlap");
  return alone ? 0 : 1;
}
