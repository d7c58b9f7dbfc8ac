#include "interposer/kernel_sequence.h"

#include <algorithm>

namespace ucudnn::interposer {

void KernelSequence::Ask(int kernel) {
  if (complete_) return;
  ++asked_[kernel];
  if (!ran_.contains(kernel)) idle_.insert(kernel);
  surprised_ |= !expected_.empty() && !expected_.contains(kernel);
}

// Knuth, Morris and Pratt: the calls so far are one sequence twice when the longest prefix that
// ends them, too, is half of them.
void KernelSequence::Record(Lane& lane, int kernel) {
  if (lane.calls.size() >= kMostCalls) return;
  size_t border = lane.borders.empty() ? 0 : lane.borders.back();
  if (!lane.calls.empty()) {
    while (border > 0 && lane.calls[border] != kernel) border = lane.borders[border - 1];
    if (lane.calls[border] == kernel) ++border;
  }
  lane.calls.push_back(kernel);
  lane.borders.push_back(border);
  if (lane.period > 0) return;
  // The first two layers may be alike: a single kernel must come more often.
  if (border > 1 && 2 * border == lane.calls.size()) lane.period = border;
  const size_t enough = idle_.empty() ? kOfOneKernel : kOfOneAmongOthers;
  if (lane.calls.size() >= enough && border + 1 == lane.calls.size()) lane.period = 1;
  if (lane.period > 0) lane.known_after = lane.calls.size();
}

KernelSequence::Known KernelSequence::Run(int kernel, int lane, bool one_lane) {
  if (complete_) return Known::kNotYet;
  const bool first = lanes_.empty();
  if (first) first_lane_ = lane;
  ran_.insert(kernel);
  idle_.erase(kernel);
  Record(lanes_[lane], kernel);
  surprised_ |= !expected_.empty() && (!expected_.contains(kernel) || lane != first_lane_);
  if (first && one_lane && asked_.size() > 1 && asked_.contains(kernel)) {
    for (const auto& [asked, times] : asked_) expected_.insert(asked);
    return Known::kAsked;
  }
  const bool all = std::all_of(lanes_.begin(), lanes_.end(),
                               [](const auto& entry) { return entry.second.period > 0; });
  const bool enough = std::any_of(lanes_.begin(), lanes_.end(), [](const auto& entry) {
    const Lane& one = entry.second;
    return one.period > 0 && one.calls.size() >= kPatience * one.known_after;
  });
  // What never repeats is no network: it is taken as it was so far.
  const bool endless = lanes_[lane].period == 0 && lanes_[lane].calls.size() >= kMostCalls;
  complete_ = all || enough || endless;
  return complete_ ? Known::kRepeated : Known::kNotYet;
}

std::vector<KernelUse> KernelSequence::Uses() const {
  std::map<int, KernelUse> uses;
  const auto add = [&](int kernel, int lane, double calls) {
    KernelUse& use = uses[kernel];
    use.kernel = kernel;
    use.calls += calls;
    if (std::find(use.lanes.begin(), use.lanes.end(), lane) == use.lanes.end()) {
      use.lanes.insert(std::upper_bound(use.lanes.begin(), use.lanes.end(), lane), lane);
    }
  };
  if (!complete_) {
    for (const auto& [kernel, times] : asked_) add(kernel, first_lane_, times);
  }
  for (const auto& [number, lane] : lanes_) {
    if (!complete_) break;
    const size_t iteration = lane.period > 0 ? lane.period : lane.calls.size();
    for (size_t i = 0; i < iteration; ++i) add(lane.calls[i], number, 1);
  }
  std::vector<KernelUse> found;
  for (auto& [kernel, use] : uses) found.push_back(std::move(use));
  return found;
}

}  // namespace ucudnn::interposer
