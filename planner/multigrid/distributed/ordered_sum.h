// Sums numbers over ranks in the order of the ranks, so that all ranks get the same bits.
// Thread-compatible; all ranks must make the same calls in the same order.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/distributed/peers.h"

namespace ucudnn::multigrid {

class OrderedSum {
 public:
  // `peers` must outlive the object.
  explicit OrderedSum(Peers& peers) : peers_(peers) {}

  // Sends the numbers of `parts` to the rank that sums them, and does not wait. The caller must not
  // change the numbers until Finish has replaced them by the sums.
  Status Begin(std::vector<std::span<double>> parts);
  // Waits for all sums that Begin has started.
  Status Finish();

 private:
  struct Sum {
    std::vector<std::span<double>> parts;
    size_t count = 0;
  };

  // Returns the rank that adds up sum number `sum`. The ranks take turns.
  int SummerOf(size_t sum) const { return static_cast<int>(sum % peers_.size()); }
  Status AddUp(Sum& sum);

  Peers& peers_;
  std::vector<Sum> begun_;
};

}  // namespace ucudnn::multigrid
