// The thread with which a rank watches its calls. It finds exchanges that failed after their calls
// had returned. It checks whether the other ranks and this rank's device make progress with the
// calls that this rank has made. Once the rank has captured a call, it also checks the calls that
// devices begin (device_log.h), and posts the records of those that this device begins. It warns of
// a long wait once, and after the timeout makes all ranks' calls fail. When a rank ends, compares
// how many calls the ranks have made. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/mutex.h"
#include "spatial/call_watch.h"
#include "spatial/device_log.h"
#include "spatial/patience.h"
#include "spatial/rank_failure.h"
#include "transport/ranks.h"

namespace ucudnn::spatial {

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
  void Tell(Patience::Advice verdict, const std::string& line, uint64_t call);
  // Returns whether the device has finished the exchanges of all calls up to `call`, or has made
  // progress with them since the last look. A rank's own work before an exchange may take long.
  // Meanwhile, calls that the device begins or ends (DeviceLog) count as progress, too.
  bool DeviceMoves(transport::Channel& channel, uint64_t call);
  // Posts the records of the calls that the device has begun, but only until this rank is as far
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
    // Calls that the device has begun plus those that it has ended (DeviceLog).
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
