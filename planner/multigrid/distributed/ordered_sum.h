// Sums of numbers over ranks, always in the order of the ranks: the same bits on all of them.
// Thread-compatible; all ranks call it in the same order.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/distributed/peers.h"

namespace ucudnn::multigrid {

class OrderedSum {
 public:
  // `peers` outlives it.
  explicit OrderedSum(Peers& peers) : peers_(peers) {}

  // The numbers of `parts` are on their way to the rank that sums them, while the caller goes on.
  // They become the sums in Finish, and are not changed until then.
  Status Begin(std::vector<std::span<double>> parts);
  // Waits for all sums begun.
  Status Finish();

 private:
  struct Sum {
    std::vector<std::span<double>> parts;
    size_t count = 0;
  };

  // Sums are shared out among the ranks, one after the other.
  int SummerOf(size_t sum) const { return static_cast<int>(sum % peers_.size()); }
  Status AddUp(Sum& sum);

  Peers& peers_;
  std::vector<Sum> begun_;
};

}  // namespace ucudnn::multigrid
