// Computes processor times, and statistics of samples that the benches print.
#pragma once

#include <time.h>

#include <algorithm>
#include <vector>

namespace ucudnn::bench {

inline double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

inline double Minimum(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

// Returns the processor time of all threads of the process in milliseconds.
inline double ProcessorMs() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) * 1e-6;
}

}  // namespace ucudnn::bench
