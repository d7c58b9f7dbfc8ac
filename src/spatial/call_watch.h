// Watches whether the other ranks of a group and this rank's device make progress in a series of
// calls: either the calls that hosts make, or the calls that devices begin. Each series has its own
// numbers and its own records, which all ranks post and compare.
//
// Thread-safe, except for the Look functions and the functions that return what the last look saw:
// only one thread may call these.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "spatial/call_record.h"
#include "spatial/patience.h"

namespace ucudnn::spatial {

class CallWatch {
 public:
  // A rank, and the last call of that rank that this rank knows of.
  struct Slowest {
    int rank = 0;
    uint64_t last = 0;
    bool operator==(const Slowest&) const = default;
  };

  // `rank` and `ranks` count within the group. `first` is the job's rank that is number 0 of the
  // group.
  CallWatch(int rank, int ranks, int first, const Patience& patience)
      : rank_(rank),
        records_(rank, ranks, first),
        left_(static_cast<size_t>(ranks)),
        ranks_wait_(patience),
        device_wait_(patience) {}

  CallRecords& records() { return records_; }
  const CallRecords& records() const { return records_; }
  // The number of this rank's last call that needs the other ranks.
  uint64_t waiting() const { return waiting_.load(); }
  void set_waiting(uint64_t call) { waiting_.store(call); }

  // Notes that another rank has ended after `calls` calls.
  void HearLeave(int rank, uint64_t calls) { left_[static_cast<size_t>(rank)].calls.store(calls); }
  // Returns a rank that ended before the call in which this rank waits, with that rank's last call;
  // none if there is none. HearLeave and set_waiting write different words and may run at once: the
  // thread that writes second sees the other's write when it calls this function.
  std::optional<Slowest> LeftBehind() const;
  // Returns the rank with the fewest calls among this rank and the ranks that have not ended.
  Slowest SlowestPresent() const;

  // Judges whether the other ranks make progress towards the call in which this rank waits.
  Patience::Verdict LookAtRanks(Patience::Clock::time_point now);
  // The slowest rank and the awaited call, as the last LookAtRanks saw them.
  const Slowest& slowest() const { return slowest_; }
  uint64_t awaited_call() const { return awaited_call_; }
  bool all_came() const { return slowest_.last >= awaited_call_; }
  // Judges whether the device makes progress, which it must do once all ranks have made the awaited
  // call. `moves` says that it has advanced since the last look.
  Patience::Verdict LookAtDevice(bool moves, Patience::Clock::time_point now) {
    return device_wait_.Look(!all_came() || moves, now);
  }
  const Patience& ranks_wait() const { return ranks_wait_; }
  const Patience& device_wait() const { return device_wait_; }

 private:
  static constexpr uint64_t kHere = ~uint64_t{0};
  struct Left {
    std::atomic<uint64_t> calls = kHere;
  };
  const int rank_;
  CallRecords records_;
  std::atomic<uint64_t> waiting_ = 0;
  std::vector<Left> left_;  // by rank
  Patience ranks_wait_, device_wait_;
  Slowest slowest_;
  uint64_t awaited_call_ = 0;
};

}  // namespace ucudnn::spatial
