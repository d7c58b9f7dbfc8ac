#include "planner/multigrid/analysis/balanced_runs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace ucudnn::multigrid {
namespace {

struct GreedyRuns {
  std::vector<int> begins;  // position at which each run begins, and the end of the last run
  double dearest = 0;
};

// Makes each run as long as possible. A run costs at most `most`, and leaves at least one element
// for each later run. Returns none if the runs do not cover `costs`.
std::optional<GreedyRuns> TakeRuns(std::span<const double> costs, int runs, double most) {
  GreedyRuns taken;
  const int count = static_cast<int>(costs.size());
  int next = 0;
  for (int run = 0; run < runs; ++run) {
    taken.begins.push_back(next);
    const int last = count - (runs - run - 1);  // the later runs need the elements from `last` on
    double sum = 0;
    while (next < last && sum + costs[next] <= most) {
      sum += costs[next++];
    }
    if (next == taken.begins.back()) return std::nullopt;
    taken.dearest = std::max(taken.dearest, sum);
  }
  if (next < count) return std::nullopt;
  taken.begins.push_back(count);
  return taken;
}

}  // namespace

std::vector<int> BalancedRuns(std::span<const double> costs, int runs) {
  GreedyRuns best = *TakeRuns(costs, runs, std::numeric_limits<double>::infinity());
  // Bisects between a cost that is too small for every run and the cost of the dearest run of the
  // best cuts. Then replaces the best cuts by cheaper ones until no cheaper cuts are found.
  double too_little = 0;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = (too_little + best.dearest) / 2;
    if (!(middle > too_little && middle < best.dearest)) break;
    if (auto better = TakeRuns(costs, runs, middle)) {
      best = std::move(*better);
    } else {
      too_little = middle;
    }
  }
  while (best.dearest > 0) {
    auto better = TakeRuns(costs, runs, std::nextafter(best.dearest, 0.0));
    if (!better) break;
    best = std::move(*better);
  }
  return best.begins;
}

}  // namespace ucudnn::multigrid
