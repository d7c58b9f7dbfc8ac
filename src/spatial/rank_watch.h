// The thread with which a rank watches its calls. It looks whether exchanges failed after their
// calls had returned, and whether the other ranks and this rank's device come to the calls that
// this rank has made and to those that its device has begun in CUDA graphs (device_log.h). It warns
// of a long wait once, and gives up after the timeout: all ranks' calls fail then. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
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
  // `ranks` and `failure` outlive the object. `count` is called for each captured call that the
  // device begins, on the thread that posts the call's record.
  RankWatch(transport::Ranks& ranks, RankFailure& failure, const Patience& patience,
            std::function<void(const DeviceCall&)> count);
  void Start();
  // Ends the thread. Called once, after Start. From then on the thread does not use the channel of
  // `failure`.
  void End();

  CallWatch& calls() { return calls_; }
  const CallWatch& calls() const { return calls_; }
  // The calls that devices have begun since they are counted.
  CallWatch& begun() { return begun_; }
  // Notes that `call` and all calls before it are on the streams.
  void NoteEnqueued(uint64_t call) { enqueued_.store(call, std::memory_order_release); }
  // Fails if a rank of the group has left before the last call that needs it. Returns whether it
  // failed.
  bool FailIfLeftBehind();

  // Returns null until CountOnDevice.
  DeviceLog* device_log() const { return device_log_.load(std::memory_order_acquire); }
  // Counts all later calls on the device. Called at the first call in a capture.
  void CountOnDevice(const cuda::Driver& driver);
  uint64_t calls_begun() const;  // by the device; 0 if they are not counted
  // Posts what the device has begun, after a limited wait for the call that the device is in.
  // Called at the rank's end.
  void FinishBegun();

 private:
  void WatchOrFail();
  void Watch();
  void WatchCalls(transport::Channel* channel);
  void WatchBegun();
  // Fails if a rank has left before a call in which this device waits. Waits a while first, because
  // the device of that rank may still begin calls.
  void WatchLeft(bool is_running);
  // Warns, or gives up: results are then suspect from `call` on.
  void Tell(Patience::Verdict verdict, const std::string& line, uint64_t call);
  // Returns whether the device has progressed since the last look in the exchanges of `call` and of
  // all calls before it, or has finished them. A rank's own work before exchanges may take long, as
  // long as some exchanges end meanwhile.
  bool DeviceMoves(transport::Channel& channel, uint64_t call);
  // Posts what the device has begun, as far as this rank may be ahead of the others.
  void PostAllBegun();
  void PostBegun(const DeviceCall& begun) UCUDNN_REQUIRES(begun_mutex_);

  transport::Ranks& ranks_;
  RankFailure& failure_;
  const std::function<void(const DeviceCall&)> count_;
  CallWatch calls_, begun_;
  std::atomic<uint64_t> enqueued_ = 0;
  std::atomic<DeviceLog*> device_log_ = nullptr;
  Mutex begun_mutex_;

  // What the thread has seen; only the thread uses it.
  struct OnDevice {
    uint64_t call = 0;      // the last call that needs the other ranks
    uint64_t reached = 0;   // DeviceProgress::reached
    uint64_t finished = 0;  // the exchanges of all calls up to this one have finished
    uint64_t counted = 0;   // calls that the device has begun and ended (DeviceLog)
  } seen_;
  uint64_t moved_ = 0;  // begun and ended calls at the last WatchBegun
  std::optional<Patience::Clock::time_point> left_behind_;

  Mutex mutex_;
  Condition ending_;
  bool ends_ UCUDNN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ucudnn::spatial
