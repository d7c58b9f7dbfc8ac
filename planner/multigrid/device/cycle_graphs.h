// Streams that run blocks at once, and CUDA graphs that repeat work of these streams.
// Thread-compatible.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/device/device_memory.h"

namespace ucudnn::multigrid {

// The lanes of one solve. Once Join has returned, later work of the first lane, or a wait for that
// lane, follows all earlier work of all lanes.
class DeviceLanes {
 public:
  // Makes `count` lanes and, if `exchanges`, an additional lane for messages between ranks. Join
  // includes the additional lane.
  static Result<std::unique_ptr<DeviceLanes>> Make(const DeviceTarget& target, int count,
                                                   bool exchanges = false);

  int count() const { return count_; }
  DeviceLane& lane(int number) { return *lanes_[number]; }
  DeviceLane& first() { return *lanes_.front(); }
  DeviceLane& exchange() { return *lanes_.back(); }
  Status Reserve(const LaneNeeds& needs);
  // Records that memory of the lanes has new addresses, so that recorded graphs are no longer
  // valid.
  void NoteMove() { ++moves_; }
  int64_t moves() const { return moves_; }

  // Makes all later work of all lanes wait for all work enqueued so far.
  Status Join();
  // Makes the other lanes wait for the first lane.
  Status Fork();
  // Makes the first lane wait for the other lanes.
  Status Gather();
  // Makes the first lane wait for the messages on the exchange lane.
  Status GatherExchange();
  Status Wait();

 private:
  int count_ = 0;
  int64_t moves_ = 0;
  std::vector<std::unique_ptr<DeviceLane>> lanes_;
};

// Repeats work that is the same each time. For each kind of work, it keeps a graph of the calls
// that the work enqueued on the lanes.
class CycleGraphs {
 public:
  // Fails if the driver has no graphs. `target` and everything that it points to must outlive the
  // object.
  static Result<CycleGraphs> Make(const DeviceTarget& target);

  // Runs the first work of a kind directly, because that run creates all objects that are created
  // at first use. Records the second work of the kind as a graph, and launches that graph from then
  // on, until memory of the lanes moves. `work` must enqueue the same calls each time, and wait for
  // nothing. REQUIRES: the lanes are joined; only messages on the exchange lane may still be under
  // way. On return the lanes are joined again.
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
  int64_t moves_ = 0;  // value of lanes.moves() when the graphs were recorded
};

}  // namespace ucudnn::multigrid
