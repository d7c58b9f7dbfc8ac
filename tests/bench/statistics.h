// Statistics of samples that the benches print.
#pragma once

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

}  // namespace ucudnn::bench
