#include "interposer/budget/kernel_sequence.h"

#include <algorithm>

namespace ucudnn::interposer {

void KernelSequence::Ask(int kernel) {
  if (complete_) return;
  ++asked_[kernel];
  surprised_ |= !expected_.empty() && !expected_.contains(kernel);
}

// Returns the length of the shortest sequence of calls that the lane has just run twice in a row
// and that counts as an iteration; 0 if there is none.
size_t KernelSequence::PeriodOf(const Lane& lane) const {
  const size_t calls = lane.calls.size();
  size_t all = 1;  // the latest `all` calls include every problem
  for (const auto& [problem, latest] : lane.latest) all = std::max(all, calls - latest);
  const bool other = lane.latest.size() > 1;
  const bool one_of_many = lanes_.size() > 1 && lane.met.size() == 1;
  const size_t enough = other ? 0 : one_of_many ? kOfOneKernel : kOfOneProblem;
  for (size_t period = 1; 2 * period <= calls; ++period) {
    const size_t repeat = lane.repeated[period - 1] + period;
    if (repeat < 2 * period) continue;
    const size_t before = calls - repeat;
    if (repeat >= std::max(kLongRepeat, kDwarfs * before)) return period;
    if (period < all || repeat < enough) continue;
    // If a call after the first of these 2 * period calls was new to the lane, the lane may still
    // be in its first iteration. But if the lane has made no other calls, the repeat counts.
    const size_t begin = calls - 2 * period;
    if (begin == 0 || begin >= lane.newest) return period;
  }
  return 0;
}

void KernelSequence::Record(Lane& lane, const KernelRun& run) {
  ++lane.ran;
  lane.ran_at = ++runs_;
  lane.gone = false;
  if (lane.calls.size() >= kMostCalls) return;
  const auto [way, fresh] =
      ways_.emplace(std::pair(run.kernel, run.way), static_cast<int>(kernels_.size()));
  if (fresh) kernels_.push_back(run.kernel);
  const int call = way->second;
  const size_t calls = lane.calls.size();
  for (size_t distance = 1; distance <= lane.repeated.size(); ++distance) {
    uint32_t& repeated = lane.repeated[distance - 1];
    repeated = lane.calls[calls - distance] == call ? repeated + 1 : 0;
  }
  lane.calls.push_back(call);
  lane.repeated.push_back(0);
  lane.latest[run.problem] = calls;
  if (lane.met.insert(call).second) {
    lane.newest = calls;
    lane.period = 0;
  }
  if (lane.period > 0) return;
  lane.period = PeriodOf(lane);
  lane.known_after = lane.ran;
  lane.known_at = lane.ran_at;
}

KernelSequence::Progress KernelSequence::Run(const KernelRun& run, int lane, bool asked_counts) {
  if (complete_) return Progress::kNotYet;
  const bool first = lanes_.empty();
  if (first) first_lane_ = lane;
  Lane& own = lanes_[lane];
  Record(own, run);
  surprised_ |= !expected_.empty() && (!expected_.contains(run.kernel) || lane != first_lane_);
  if (first && asked_counts && asked_.size() > 1 && asked_.contains(run.kernel)) {
    for (const auto& [asked, times] : asked_) expected_.insert(asked);
    return Progress::kAsked;
  }
  const bool all = std::all_of(lanes_.begin(), lanes_.end(), [](const auto& entry) {
    return entry.second.gone || entry.second.period > 0;
  });
  const bool enough = own.period > 0 && own.ran >= kPatience * own.known_after;
  // If a program's calls never repeat, its network is taken to be the calls that it has run so far.
  const bool endless = own.period == 0 && own.ran >= kMostCalls;
  complete_ = all || enough || endless;
  if (!complete_) return Progress::kNotYet;
  for (auto& [number, other] : lanes_) {
    // A lane that was silent while another lane repeated is not part of the network.
    other.gone |= enough && other.period == 0 && other.ran_at < own.known_at;
  }
  return Progress::kRepeated;
}

void KernelSequence::Leave(int lane) {
  const auto entry = lanes_.find(lane);
  if (entry != lanes_.end() && !complete_) entry->second.gone = true;
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
  const bool any_left = std::any_of(lanes_.begin(), lanes_.end(),
                                    [](const auto& entry) { return !entry.second.gone; });
  for (const auto& [number, lane] : lanes_) {
    if (!complete_) break;
    if (lane.gone && any_left) continue;
    const bool known = lane.period > 0;
    const size_t end = known ? std::min(lane.known_after, lane.calls.size()) : lane.calls.size();
    const size_t begin = known ? end - lane.period : 0;
    for (size_t call = begin; call < end; ++call) add(kernels_[lane.calls[call]], number, 1);
  }
  std::vector<KernelUse> found;
  for (auto& [kernel, use] : uses) found.push_back(std::move(use));
  return found;
}

}  // namespace ucudnn::interposer
