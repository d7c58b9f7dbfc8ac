// Whether the other ranks of a group, and this rank's device, get on with a series of calls: those
// that the host makes, or those that devices begin. Each series has its own numbers, and records
// that all ranks post and compare.
//
// Thread-safe, but for the looks, which one thread takes.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "spatial/call_record.h"
#include "spatial/patience.h"

namespace ucudnn::spatial {

class CallWatch {
 public:
  // A rank, and its last call that this one has heard of.
  struct Slowest {
    int rank = 0;
    uint64_t last = 0;
    bool operator==(const Slowest&) const = default;
  };

  // Ranks are numbers within the group; `first` is the job's rank that is number 0.
  CallWatch(int rank, int ranks, int first, const Patience& patience)
      : rank_(rank),
        records_(rank, ranks, first),
        left_(static_cast<size_t>(ranks)),
        ranks_wait_(patience),
        device_wait_(patience) {}

  CallRecords& records() { return records_; }
  const CallRecords& records() const { return records_; }
  // The last call of this rank that needs the other ranks.
  uint64_t waiting() const { return waiting_.load(); }
  void set_waiting(uint64_t call) { waiting_.store(call); }

  // The other rank ended after so many calls.
  void HearLeave(int rank, uint64_t calls) { left_[static_cast<size_t>(rank)].calls.store(calls); }
  // One that ended before the call that this rank waits in, and its last call. A rank's leaving and
  // this one's waiting are two words: whoever is second sees the other.
  std::optional<Slowest> LeftBehind() const;
  // Who has come to the fewest calls, among the ranks that have not ended.
  Slowest SlowestPresent() const;

  // Looks whether the others come to the call that this rank waits in.
  Patience::Verdict LookAtRanks(Patience::Clock::time_point now);
  // What the last look at the ranks saw.
  const Slowest& slowest() const { return slowest_; }
  uint64_t awaited_call() const { return awaited_call_; }
  bool all_came() const { return slowest_.last >= awaited_call_; }
  // Looks whether the device `moves`, which it has to once all ranks came.
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
