#include "planning/compositions.h"

#include <algorithm>
#include <cassert>

namespace ucudnn::planning {
namespace {

constexpr Cost kImpossible = {kNoTime, 0};

}  // namespace

Compositions::Compositions(int n, int step)
    : step_(step),
      fastest_(static_cast<size_t>(n) + 1, nullptr),
      cost_(static_cast<size_t>(n / step) + 1, kImpossible),
      piece_(cost_.size(), 0) {
  assert(n >= 1 && step >= 1);
  cost_[0] = {0, 0};
}

bool Compositions::Admit(const MicroConfiguration& row) {
  const int size = row.micro_batch;
  assert(size >= 1 && static_cast<size_t>(size) < fastest_.size());
  assert(row.time_ms >= 0 && row.time_ms < kNoTime);
  if (fastest_[size] != nullptr && fastest_[size]->time_ms <= row.time_ms) return false;
  fastest_[size] = &row;
  const int n = static_cast<int>(fastest_.size()) - 1;
  if (size % step_ != 0) return (n - size) % step_ == 0;
  const size_t first = static_cast<size_t>(size / step_);
  const Cost one = {row.time_ms, 1};
  if (cost_[first] <= one) return false;
  // Solves an unbounded knapsack, in which the new row is a new item. One pass over the totals from
  // the row's own size upward adds any number of copies of the row.
  for (size_t at = first; at < cost_.size(); ++at) {
    const Cost with = Sum(cost_[at - first], one);
    if (with >= cost_[at]) continue;
    cost_[at] = with;
    piece_[at] = static_cast<int>(first);
  }
  return true;
}

std::pair<Cost, int> Compositions::Best(int images) const {
  assert(images >= 0 && static_cast<size_t>(images) < fastest_.size());
  const int rest = images % step_;
  if (rest == 0) return {cost_[images / step_], 0};
  std::pair<Cost, int> best = {kImpossible, 0};
  for (int size = rest; size <= images; size += step_) {
    if (fastest_[size] == nullptr) continue;
    const Cost with = Sum(cost_[(images - size) / step_], {fastest_[size]->time_ms, 1});
    if (with.first == kNoTime || with >= best.first) continue;
    best = {with, size};
  }
  return best;
}

Cost Compositions::Of(int images) const { return Best(images).first; }

Configuration Compositions::Divide(int images) const {
  assert(Of(images).first < kNoTime);
  const int last = Best(images).second;
  std::vector<int> sizes;
  for (int left = (images - last) / step_; left > 0; left -= piece_[left]) {
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
  assert(configuration.Covers(images));
  return configuration;
}

}  // namespace ucudnn::planning
