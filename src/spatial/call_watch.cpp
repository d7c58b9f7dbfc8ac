#include "spatial/call_watch.h"

#include <utility>

namespace ucudnn::spatial {

std::optional<CallWatch::Slowest> CallWatch::LeftBehind() const {
  for (size_t rank = 0; rank < left_.size(); ++rank) {
    const uint64_t last = left_[rank].calls.load();
    if (last < waiting()) return Slowest{static_cast<int>(rank), last};
  }
  return std::nullopt;
}

CallWatch::Slowest CallWatch::SlowestPresent() const {
  Slowest slowest = {rank_, records_.last()};
  for (size_t at = 0; at < left_.size(); ++at) {
    if (left_[at].calls.load() != kHere) continue;
    const int rank = static_cast<int>(at);
    if (const uint64_t last = records_.last_of(rank); last < slowest.last) slowest = {rank, last};
  }
  return slowest;
}

Patience::Advice CallWatch::LookAtRanks(Patience::Clock::time_point now) {
  awaited_call_ = waiting();
  const Slowest before = std::exchange(slowest_, SlowestPresent());
  return ranks_wait_.Judge(all_came() || slowest_ != before, now);
}

}  // namespace ucudnn::spatial
