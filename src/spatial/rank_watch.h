// The thread of a rank that looks whether exchanges failed after their calls had returned, and
// whether the other ranks, and the device, come to the calls that this one has made and to those
// that its device has begun in CUDA graphs (device_log.h). Waits are told of once, and given up in
// time: then all ranks' calls fail. Thread-safe.
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
  // `ranks` and `failure` outlive this. `count` hears of each captured call that the device begins,
  // on the thread that posts its record.
  RankWatch(transport::Ranks& ranks, RankFailure& failure, const Patience& patience,
            std::function<void(const DeviceCall&)> count);
  void Start();
  // Once, behind Start. From then on nobody asks the channel that `failure` knows.
  void End();

  CallWatch& calls() { return calls_; }
  const CallWatch& calls() const { return calls_; }
  // The calls that devices begin, since they are counted.
  CallWatch& begun() { return begun_; }
  // The call, and all before it, are on the streams.
  void NoteEnqueued(uint64_t call) { enqueued_.store(call, std::memory_order_release); }
  // Fails where a rank of the group has left that would have to make the last call, too. True where
  // it has.
  bool FailIfLeftBehind();

  // Null until CountOnDevice.
  DeviceLog* device_log() const { return device_log_.load(std::memory_order_acquire); }
  // From now on all calls are counted. At the first call in a capture.
  void CountOnDevice(const cuda::Driver& driver);
  uint64_t calls_begun() const;  // by the device, where it is counted
  // At the rank's end: posts what the device has begun, and waits a bounded time for what it is in.
  void FinishBegun();

 private:
  void WatchOrFail();
  void Watch();
  void WatchCalls(transport::Channel* channel);
  void WatchBegun();
  // The device of a rank that has left may still run what it had not begun by then, for a while.
  void WatchLeft(bool is_running);
  // Warns, or gives up: then results are suspect from `call` on.
  void Tell(Patience::Verdict verdict, const std::string& line, uint64_t call);
  // Whether the device has done something since the last look for the exchanges up to those of
  // `call`, or has done them all. A rank's own work before them may take long, as long as some end.
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

  // The thread alone uses what it has seen.
  struct OnDevice {
    uint64_t call = 0;      // the last one that needs the other ranks
    uint64_t reached = 0;   // as the channel counts
    uint64_t finished = 0;  // a call of which, as of those before it, nothing needs to be asked
    uint64_t counted = 0;   // what it has begun and ended, as DeviceLog counts
  } seen_;
  uint64_t moved_ = 0;  // `counted` at the last look at what has begun
  std::optional<Patience::Clock::time_point> left_behind_;

  Mutex mutex_;
  Condition ending_;
  bool ends_ UCUDNN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ucudnn::spatial
