#include "planning/micro_batch_sizes.h"

#include <algorithm>

namespace ucudnn::planning {

std::vector<int> MicroBatchSizes(BatchSizePolicy policy, int n, int step) {
  std::vector<int> sizes = {n};
  if (policy != BatchSizePolicy::kUndivided && step < n) {
    if (n % step != 0) sizes.push_back(n % step);
    if (policy == BatchSizePolicy::kAll) {
      for (int size = step; size < n; size += step) sizes.push_back(size);
    } else {
      for (int64_t size = 1; size < n; size *= 2) {
        if (size % step == 0) sizes.push_back(static_cast<int>(size));
      }
    }
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace ucudnn::planning
