#include "planning/desirable_set.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace ucudnn::planning {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::infinity();

using Rows = std::vector<const MicroConfiguration*>;
using Cost = std::pair<double, int>;  // milliseconds, then pieces
constexpr Cost kImpossible = {kNoTime, 0};

Cost Sum(const Cost& a, const Cost& b) { return {a.first + b.first, a.second + b.second}; }

// By rising workspace: one micro-configuration after the other becomes affordable.
Rows Usable(std::span<const MicroConfiguration> measured, int n, size_t limit_bytes) {
  Rows rows;
  for (const MicroConfiguration& micro : measured) {
    if (micro.micro_batch < 1 || micro.micro_batch > n) continue;
    if (micro.workspace_bytes > limit_bytes) continue;
    if (micro.time_ms >= 0 && micro.time_ms < kNoTime) rows.push_back(&micro);
  }
  std::sort(rows.begin(), rows.end(), [](const MicroConfiguration* a, const MicroConfiguration* b) {
    return std::tie(a->workspace_bytes, a->time_ms, a->micro_batch, a->engine) <
           std::tie(b->workspace_bytes, b->time_ms, b->micro_batch, b->engine);
  });
  return rows;
}

// The fastest composition of every whole number of steps out of the rows admitted so far. One more
// row is one more item of an unbounded knapsack: a single pass from its size upward.
class Compositions {
 public:
  Compositions(int n, int step)
      : n_(n),
        step_(step),
        fastest_(static_cast<size_t>(n) + 1, nullptr),
        cost_(static_cast<size_t>(n / step) + 1, kImpossible),
        piece_(cost_.size(), 0) {
    cost_[0] = {0, 0};
  }

  // False: nothing becomes faster by it.
  bool Admit(const MicroConfiguration& row) {
    const int size = row.micro_batch;
    if (fastest_[size] != nullptr && fastest_[size]->time_ms <= row.time_ms) return false;
    fastest_[size] = &row;
    if (size % step_ != 0) return (n_ - size) % step_ == 0;
    const size_t first = static_cast<size_t>(size / step_);
    const Cost one = {row.time_ms, 1};
    if (cost_[first] <= one) return false;
    for (size_t at = first; at < cost_.size(); ++at) {
      const Cost with = Sum(cost_[at - first], one);
      if (with >= cost_[at]) continue;
      cost_[at] = with;
      piece_[at] = static_cast<int>(first);
    }
    return true;
  }

  // Of all images. The last piece takes what is no multiple of the step (`last`; 0: there is none).
  Cost Best(int& last) const {
    last = 0;
    const int rest = n_ % step_;
    if (rest == 0) return cost_.back();
    Cost best = kImpossible;
    for (int size = rest; size <= n_; size += step_) {
      if (fastest_[size] == nullptr) continue;
      const Cost with = Sum(cost_[(n_ - size) / step_], {fastest_[size]->time_ms, 1});
      if (with.first == kNoTime || with >= best) continue;
      best = with;
      last = size;
    }
    return best;
  }

  // Largest pieces first, `last` behind them.
  Configuration Divide(int last) const {
    std::vector<int> sizes;
    for (int left = (n_ - last) / step_; left > 0; left -= piece_[left]) {
      sizes.push_back(piece_[left] * step_);
    }
    std::sort(sizes.rbegin(), sizes.rend());
    if (last != 0) sizes.push_back(last);
    Configuration configuration;
    for (const int size : sizes) {
      if (configuration.runs.empty() || configuration.runs.back().micro.micro_batch != size) {
        configuration.runs.push_back({*fastest_[size], 0});
      }
      ++configuration.runs.back().count;
    }
    return configuration;
  }

 private:
  const int n_;
  const int step_;
  std::vector<const MicroConfiguration*> fastest_;  // by size in images
  std::vector<Cost> cost_;                          // by size in steps
  std::vector<int> piece_;                          // one piece of it, in steps
};

}  // namespace

std::vector<Configuration> DesirableSet(std::span<const MicroConfiguration> measured, int n,
                                        int step, size_t limit_bytes) {
  std::vector<Configuration> front;
  if (n < 1 || step < 1) return front;
  const Rows rows = Usable(measured, n, limit_bytes);
  Compositions compositions(n, step);
  double fastest_ms = kNoTime;
  for (size_t at = 0; at < rows.size();) {
    const size_t workspace_bytes = rows[at]->workspace_bytes;
    bool faster = false;
    for (; at < rows.size() && rows[at]->workspace_bytes == workspace_bytes; ++at) {
      faster |= compositions.Admit(*rows[at]);
    }
    int last = 0;
    if (!faster || compositions.Best(last).first >= fastest_ms) continue;
    Configuration configuration = compositions.Divide(last);
    // Sums of the same times in another order may differ in the last bit.
    if (configuration.TimeMs() >= fastest_ms) continue;
    fastest_ms = configuration.TimeMs();
    front.push_back(std::move(configuration));
  }
  return front;
}

}  // namespace ucudnn::planning
