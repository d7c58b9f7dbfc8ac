// RankWatch is the thread with which a rank watches its calls. It finds exchanges that failed after
// their calls had returned. It checks whether the other ranks and this rank's device make progress
// with the calls that this rank has made. Once the rank has captured a call, it also checks the
// calls that devices begin (device_log.h), and posts the records of the calls that this device
// begins. It warns once of a long wait, and makes all ranks' calls fail after the timeout. When a
// rank ends, RankWatch compares how many calls the ranks have made. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "spatial/call_record.h"
#include "spatial/device_log.h"
#include "spatial/patience.h"
#include "spatial/rank_failure.h"
#include "transport/ranks.h"

namespace ucudnn::spatial {

// Watches whether the other ranks of a group and this rank's device make progress in one series of
// calls: the calls that hosts make, or the calls that devices begin. Each series has its own
// numbers and its own records, which all ranks post and compare. Thread-safe, except for the Look
// functions and the functions that return the result of the last look: only one thread may call
// these.
class CallWatch {
 public:
  // A rank, and the number of its latest call of which this rank knows.
  struct Slowest {
    int rank = 0;
    uint64_t last = 0;
    bool operator==(const Slowest&) const = default;
  };

  // `rank` and `ranks` count within the group. `first` is the number, within the job, of the
  // group's rank 0.
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
  // Returns a rank that ended without making the call in which this rank waits, and that rank's
  // last call; none if there is no such rank. HearLeave and set_waiting may run at the same time on
  // two threads. Each of these threads then calls this function, and the thread that wrote second
  // sees both values.
  std::optional<Slowest> LeftBehind() const;
  // Returns the rank with the fewest calls among this rank and the ranks that have not ended.
  Slowest SlowestPresent() const;

  // Judges whether the other ranks make progress towards the call in which this rank waits.
  Patience::Advice LookAtRanks(Patience::Clock::time_point now);
  // The slowest rank and the awaited call, as of the last LookAtRanks.
  const Slowest& slowest() const { return slowest_; }
  uint64_t awaited_call() const { return awaited_call_; }
  bool all_came() const { return slowest_.last >= awaited_call_; }
  // Judges whether the device makes progress. Progress is expected only once all ranks have made
  // the awaited call. `moves` says that the device has advanced since the last look.
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

class RankWatch {
 public:
  // `ranks` and `failure` must outlive the object. `count` is called for each captured call that
  // the device begins, on the thread that posts that call's record.
  RankWatch(transport::Ranks& ranks, RankFailure& failure, const Patience& patience,
            std::function<void(const DeviceCall&)> count);
  void Start();
  // Ends the thread, which from then on does not use the channel of `failure`. Called once, after
  // Start.
  void End();

  CallWatch& calls() { return calls_; }
  const CallWatch& calls() const { return calls_; }
  // The watch over the calls that devices have begun since CountOnDevice.
  CallWatch& begun() { return begun_; }
  // Records that all calls up to number `call` are enqueued.
  void NoteEnqueued(uint64_t call) { enqueued_.store(call, std::memory_order_release); }
  // Fails the job if a rank of the group has left before this rank's last call that needs other
  // ranks. Returns whether it has failed the job.
  bool FailIfLeftBehind();

  // Returns null before CountOnDevice.
  DeviceLog* device_log() const { return device_log_.load(std::memory_order_acquire); }
  // Logs all later calls on the device. Called at the first call in a capture.
  void CountOnDevice(const cuda::Driver& driver);

  // To be called when another rank of the group has left, with the text that its Leave has sent.
  void HearLeave(int group_rank, std::string_view last);
  // Ends the rank's calls. Waits, for a limited time, for the other ranks of the group. If the
  // ranks did not make equally many calls, returns a line that says so; otherwise none.
  std::optional<std::string> Leave();

 private:
  void WatchOrFail();
  void Watch();
  void WatchCalls(transport::Channel* channel);
  void WatchBegun();
  // Fails the job if a rank has left before a call in which this device waits. First waits for
  // transport::kLeavingTime, because that rank's device may still begin calls.
  void WatchLeft(bool is_running);
  // Warns, or gives up with a message that results may be wrong from call number `call` on.
  void Tell(Patience::Advice advice, const std::string& line, uint64_t call);
  // Returns whether the device has finished the exchanges of all calls up to `call`, or has made
  // progress with them since the last look. A rank's own work before an exchange may take long.
  // Meanwhile, calls that the device begins or ends (DeviceLog) count as progress, too.
  bool DeviceMoves(transport::Channel& channel, uint64_t call);
  // Posts the records of the calls that the device has begun. Stops early if this rank is as far
  // ahead of the slowest other rank as most_ahead() permits.
  void PostAllBegun();
  void PostBegun(const DeviceCall& begun) UCUDNN_REQUIRES(begun_mutex_);
  // Calls PostAllBegun, after a limited wait for the end of the call that the device is running.
  void FinishBegun();

  transport::Ranks& ranks_;
  RankFailure& failure_;
  const std::function<void(const DeviceCall&)> count_;
  CallWatch calls_, begun_;
  std::atomic<uint64_t> enqueued_ = 0;
  std::atomic<DeviceLog*> device_log_ = nullptr;
  Mutex begun_mutex_;

  // The device's state when the thread last looked; only the thread uses it.
  struct OnDevice {
    uint64_t call = 0;      // the last call that needs the other ranks
    uint64_t reached = 0;   // DeviceProgress::reached
    uint64_t finished = 0;  // the exchanges of all calls up to this one are done
    // The number of calls that the device has begun plus the number that it has ended (DeviceLog).
    uint64_t counted = 0;
  } seen_;
  uint64_t moved_ = 0;  // calls begun plus calls ended, at the last WatchBegun
  std::optional<Patience::Clock::time_point> left_behind_;

  Mutex mutex_;
  Condition ending_;
  bool ends_ UCUDNN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ucudnn::spatial
