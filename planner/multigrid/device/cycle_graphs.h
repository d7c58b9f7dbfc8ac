// Streams whose blocks run at once, and CUDA graphs that repeat what the streams were given.
// Thread-compatible.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/device/device_memory.h"

namespace ucudnn::multigrid {

// The lanes of one solve. What is enqueued on the first lane after Join, or waited for there,
// follows all work of all lanes.
class DeviceLanes {
 public:
  // Makes `count` lanes. `exchanges`: makes another lane, for messages between ranks, which Join
  // includes.
  static Result<std::unique_ptr<DeviceLanes>> Make(const DeviceTarget& target, int count,
                                                   bool exchanges = false);

  int count() const { return count_; }
  DeviceLane& lane(int number) { return *lanes_[number]; }
  DeviceLane& first() { return *lanes_.front(); }
  DeviceLane& exchange() { return *lanes_.back(); }
  Status Reserve(const LaneNeeds& needs);
  // Notes that memory which the lanes use has new addresses.
  void NoteMove() { ++moves_; }
  int64_t moves() const { return moves_; }

  // Makes all later work wait for all work enqueued so far.
  Status Join();
  // Makes the other lanes wait for the first.
  Status Fork();
  // Makes the first lane wait for the others.
  Status Gather();
  // Makes the first lane wait for messages under way.
  Status GatherExchange();
  Status Wait();

 private:
  int count_ = 0;
  int64_t moves_ = 0;
  std::vector<std::unique_ptr<DeviceLane>> lanes_;
};

// Repeats work that is the same each time: keeps, for each kind of work, a graph of what it
// enqueued on the lanes.
class CycleGraphs {
 public:
  // Fails if the driver has no graphs. `target` and what it points to outlive the object.
  static Result<CycleGraphs> Make(const DeviceTarget& target);

  // Runs the first work of a kind as it is, so that everything that is made at its first use gets
  // made. Records the second one, and launches the recorded graph from then on, until memory of the
  // lanes moves. `work` enqueues the same each time and waits for nothing. REQUIRES: the lanes are
  // joined, but for messages. The lanes are joined again afterwards.
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
  int64_t moves_ = 0;  // lanes.moves() when the graphs were recorded
};

}  // namespace ucudnn::multigrid
