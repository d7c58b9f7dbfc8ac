// Watches whether the other ranks of a group and this rank's device make progress in one series of
// calls: the calls that hosts make, or the calls that devices begin. Each series has its own
// numbers and its own records, which all ranks post and compare.
//
// Thread-safe, except for the Look functions and the functions that return the result of the last
// look: only one thread may call these.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "spatial/call_record.h"
#include "spatial/patience.h"

namespace ucudnn::spatial {

class CallWatch {
 public:
  // A rank, and the last of its calls that this rank knows.
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

  // Records that another rank has ended after `calls` calls.
  void HearLeave(int rank, uint64_t calls) { left_[static_cast<size_t>(rank)].calls.store(calls); }
  // Returns a rank that ended before making the call in which this rank waits, and that rank's last
  // call; none if there is no such rank. HearLeave and set_waiting may run at the same time on two
  // threads: the thread that writes second sees both values when it calls this function.
  std::optional<Slowest> LeftBehind() const;
  // Returns the rank with the fewest calls among this rank and the ranks that have not ended.
  Slowest SlowestPresent() const;

  // Judges whether the other ranks make progress towards the call in which this rank waits.
  Patience::Advice LookAtRanks(Patience::Clock::time_point now);
  // The slowest rank and the awaited call, as of the last LookAtRanks.
  const Slowest& slowest() const { return slowest_; }
  uint64_t awaited_call() const { return awaited_call_; }
  bool all_came() const { return slowest_.last >= awaited_call_; }
  // Judges whether the device makes progress. The device must do so once all ranks have made the
  // awaited call. `moves` says that the device has advanced since the last look.
  Patience::Advice LookAtDevice(bool moves, Patience::Clock::time_point now) {
    return device_wait_.Judge(!all_came() || moves, now);
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
