// The devices of a machine as resources of a task graph. The tasks are the CUDA kernels of the
// devices and the messages between them. Thread-compatible.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/machine/machine.h"
#include "planner/multigrid/analysis/layer_times.h"
#include "planner/simulate/simulate.h"
#include "planner/simulate/task_graph.h"

namespace ucudnn::multigrid {

// A task that gets this list as its `after` waits for all tasks in it.
using TaskList = std::vector<simulate::TaskId>;
inline void Append(TaskList& to, const TaskList& tasks) {
  to.insert(to.end(), tasks.begin(), tasks.end());
}

enum class Launching {
  // The host launches every CUDA kernel, one launch after the other on each device. Before a
  // launch, it waits for the messages that the CUDA kernel reads, as a host that uses MPI does.
  kEach,
  // The device runs CUDA graphs: each Cluster::BeginGraph is one launch, and messages are part of
  // the graph.
  kCaptured
};

// Selects the port that a message occupies: the sending port of the sender's group, or the
// receiving port of the receiver's group. The groups are those of the machine's level that joins
// both devices. A port carries one message at a time.
enum class Port { kOfSender, kOfReceiver };

class Cluster {
 public:
  // Uses the first `devices` devices of `machine`, which must outlive the cluster.
  Cluster(const planner::Machine& machine, int devices, Launching launching);

  int devices() const { return devices_; }

  // Runs CUDA kernels of `cost` one after the other on `queue` of the device, after the tasks
  // `after`. Returns the tasks for which a reader of the result must wait.
  TaskList Run(int device, simulate::QueueId queue, const RunCost& cost, TaskList after);
  // Returns the queue of the device that models stream `number`. The same number gives the same
  // queue.
  simulate::QueueId Stream(int device, int number);
  // Begins a CUDA graph: everything that the device runs until the next BeginGraph has a single
  // launch. Does nothing with Launching::kEach.
  void BeginGraph(int device);
  // Sends `bytes` from one device to another. Returns the tasks for which a reader of the message
  // must wait. A message from a device to itself takes no time.
  TaskList Send(int from, int to, double bytes, Port port, TaskList after);
  // Returns a single task that ends when all of `tasks` have ended.
  TaskList Join(TaskList tasks);

  // Simulates all added tasks. Fails if the simulator fails.
  Result<simulate::Timeline> Simulate() const { return simulate::Simulate(graph_); }
  int messages() const { return messages_; }
  // Returns how long messages on the critical path take.
  double MessagePathMs(const simulate::Timeline& timeline) const;
  // Returns the share of time in which a device runs or launches a CUDA kernel, averaged over the
  // devices.
  double ComputingShare(const simulate::Timeline& timeline) const;

 private:
  struct HostThread {
    simulate::QueueId queue = simulate::kNone;
    // The last launch. CUDA kernels that are added without launches wait for it.
    simulate::TaskId last = simulate::kNone;
  };

  // Values of runs_ other than device numbers. kMessage is a message, or a join that waits for a
  // message; kJoin is any other join.
  static constexpr int kMessage = -1;
  static constexpr int kJoin = -2;

  simulate::TaskId AddLaunches(int device, double launches, TaskList after);
  void Launch(int device, double launches, TaskList& after, TaskList& done);
  bool HasMessage(const TaskList& tasks) const;

  const planner::Machine& machine_;
  const int devices_;
  const Launching launching_;
  simulate::TaskGraph graph_;
  std::vector<simulate::ResourceId> resources_;  // by device
  std::vector<HostThread> hosts_;                // by device
  std::map<std::pair<int, int>, simulate::QueueId> streams_;
  std::map<std::array<int, 3>, simulate::Link> ports_;  // by level, group, direction
  std::vector<int> runs_;  // by task: the device that runs it, kMessage or kJoin
  int messages_ = 0;
};

}  // namespace ucudnn::multigrid
