// Streams whose blocks run at once, and what they were given as a CUDA graph that runs again.
// Thread-compatible.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/device/device_memory.h"

namespace ucudnn::multigrid {

// The lanes of one solve. What is enqueued on the first, or waited for, is behind all of Join.
class DeviceLanes {
 public:
  // `exchanges`: with one more, for messages between ranks, that is joined as the others are.
  static Result<std::unique_ptr<DeviceLanes>> Make(const DeviceTarget& target, int count,
                                                   bool exchanges = false);

  int count() const { return count_; }
  DeviceLane& lane(int number) { return *lanes_[number]; }
  DeviceLane& first() { return *lanes_.front(); }
  DeviceLane& exchange() { return *lanes_.back(); }
  Status Reserve(const LaneNeeds& needs);
  // What is used on the lanes has other addresses than before.
  void NoteMove() { ++moves_; }
  int64_t moves() const { return moves_; }

  // All that is enqueued from now on waits for all that is enqueued.
  Status Join();
  // The other lanes wait for the first.
  Status Fork();
  // The first waits for the other lanes.
  Status Gather();
  // The first waits for messages under way.
  Status GatherExchange();
  Status Wait();

 private:
  int count_ = 0;
  int64_t moves_ = 0;
  std::vector<std::unique_ptr<DeviceLane>> lanes_;
};

// Work that is the same each time, by its kind: what was enqueued on some lanes.
class CycleGraphs {
 public:
  // An error where the driver has no graphs. `target` and what it points to outlive them.
  static Result<CycleGraphs> Make(const DeviceTarget& target);

  // The first work of a kind runs as it is, so that whatever is made at its first use is made; the
  // second is recorded, and from then on that is launched instead, until something on the lanes
  // moves. `work` enqueues the same each time and waits for nothing. REQUIRES: the lanes are
  // joined, but for messages; so they are behind it.
  Status Run(int kind, DeviceLanes& lanes, const std::function<Status()>& work);

 private:
  struct ExecDeleter {
    const cuda::Driver* driver;
    void operator()(CUgraphExec exec) const { driver->cuGraphExecDestroy(exec); }
  };
  using Exec = std::unique_ptr<CUgraphExec_st, ExecDeleter>;
  struct Kind {
    bool has_run = false;
    Exec graph;
  };

  explicit CycleGraphs(const DeviceTarget& target) : target_(target) {}
  Result<Exec> Record(DeviceLanes& lanes, const std::function<Status()>& work);

  DeviceTarget target_;
  std::vector<Kind> kinds_;
  int64_t moves_ = 0;  // of the lanes, when that was recorded
};

}  // namespace ucudnn::multigrid
