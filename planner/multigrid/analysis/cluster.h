// The devices of a machine as resources of a task graph, and what runs on them or travels between
// them as its tasks. Thread-compatible.
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

// All of them are waited for.
using TaskList = std::vector<simulate::TaskId>;
inline void Append(TaskList& to, const TaskList& tasks) {
  to.insert(to.end(), tasks.begin(), tasks.end());
}

enum class Launching {
  // The host launches every kernel, one launch after the other on each device. It waits for a
  // message before it launches what reads it, as MPI has it.
  kEach,
  // CUDA graphs: one launch where Cluster::BeginGraph says so. Messages are part of the graph.
  kCaptured
};

// Which port a message waits for where several are on its way: that of its sender's group or that
// of its receiver's, at the level of the machine that joins the two.
enum class Port { kOfSender, kOfReceiver };

class Cluster {
 public:
  // The first `devices` of `machine`, which outlives the cluster.
  Cluster(const planner::Machine& machine, int devices, Launching launching);

  int devices() const { return devices_; }

  // Kernels in a row, on `queue` of the device. Returns what those wait for that read the result.
  TaskList Run(int device, simulate::QueueId queue, const RunCost& cost, TaskList after);
  // A queue of the device: a stream. The same number gives the same stream.
  simulate::QueueId Stream(int device, int number);
  // What the device runs from now on is one graph, launched at once.
  void BeginGraph(int device);
  // Between devices; the same device gets it at once.
  TaskList Send(int from, int to, double bytes, Port port, TaskList after);
  // One task to wait for in place of many.
  TaskList Join(TaskList tasks);

  // Simulates all that was added. The error is the simulator's.
  Result<simulate::Timeline> Simulate() const { return simulate::Simulate(graph_); }
  const simulate::TaskGraph& graph() const { return graph_; }
  int messages() const { return messages_; }
  // The mean over the devices of the share of the time in which a kernel runs or is launched.
  double ComputingShare(const simulate::Timeline& timeline) const;

 private:
  struct HostThread {
    simulate::QueueId queue = simulate::kNone;
    simulate::TaskId last = simulate::kNone;  // what kernels without a launch of their own wait for
  };

  // Who runs a task: a device's number, or one of these.
  static constexpr int kMessage = -1;  // and what was joined with one
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
  std::vector<int> runs_;                               // by task: who runs it
  int messages_ = 0;
};

}  // namespace ucudnn::multigrid
