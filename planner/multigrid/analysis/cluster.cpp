#include "planner/multigrid/analysis/cluster.h"

#include <algorithm>

namespace ucudnn::multigrid {

using simulate::kNone;
using simulate::TaskId;

Cluster::Cluster(const planner::Machine& machine, int devices, Launching launching)
    : machine_(machine), devices_(devices), launching_(launching) {
  for (int device = 0; device < devices; ++device) {
    const std::string name = "device " + std::to_string(device);
    resources_.push_back(graph_.AddResource(name, machine.device.concurrent_kernels));
    hosts_.push_back({graph_.AddQueue("host of " + name)});
  }
}

simulate::QueueId Cluster::Stream(int device, int number) {
  const auto [found, is_new] = streams_.try_emplace({device, number}, kNone);
  if (is_new) {
    found->second = graph_.AddQueue("stream " + std::to_string(number) + " of device " +
                                    std::to_string(device));
  }
  return found->second;
}

bool Cluster::HasMessage(const TaskList& tasks) const {
  return std::any_of(tasks.begin(), tasks.end(),
                     [&](TaskId task) { return runs_[task] == kMessage; });
}

TaskId Cluster::AddLaunches(int device, double launches, TaskList after) {
  const TaskId launch = graph_.Add({.duration_ms = launches * machine_.device.launch_us / 1e3,
                                    .queue = hosts_[device].queue,
                                    .after = std::move(after)});
  runs_.push_back(device);
  return launch;
}

// Adds the host's `launches` launches as tasks. The first launch is appended to `after`, because
// the CUDA kernels wait for it. The other launches are appended to `done`, because a reader of the
// results waits for them, too. If `launches` is 0, appends the device's last launch to `after`.
void Cluster::Launch(int device, double launches, TaskList& after, TaskList& done) {
  HostThread& host = hosts_[device];
  if (launches > 0) {
    TaskList messages;
    for (const TaskId task : after) {
      if (runs_[task] == kMessage) messages.push_back(task);
    }
    host.last = AddLaunches(device, 1, std::move(messages));
    after.push_back(host.last);
    if (launches > 1) done.push_back(AddLaunches(device, launches - 1, {}));
  } else if (host.last != kNone) {
    after.push_back(host.last);
  }
}

TaskList Cluster::Run(int device, simulate::QueueId queue, const RunCost& cost, TaskList after) {
  TaskList done;
  Launch(device, launching_ == Launching::kEach ? cost.launches : 0, after, done);
  done.push_back(graph_.Add({.duration_ms = cost.ms,
                             .resource = resources_[device],
                             .share = cost.Share(),
                             .queue = queue,
                             .after = std::move(after)}));
  runs_.push_back(device);
  return done;
}

void Cluster::BeginGraph(int device) {
  if (launching_ == Launching::kEach) return;
  hosts_[device].last = AddLaunches(device, 1, {});
}

TaskList Cluster::Send(int from, int to, double bytes, Port port, TaskList after) {
  if (from == to) return after;
  const int level = machine_.JoiningLevel(from, to);
  const planner::Level& link = machine_.levels[level];
  const int group = (port == Port::kOfSender ? from : to) / machine_.PortDevices(level);
  const auto [found, is_new] = ports_.try_emplace({level, group, port == Port::kOfSender ? 0 : 1});
  if (is_new) {
    found->second = {graph_.AddResource(link.name, 1), link.gb_per_s, link.latency_us};
  }
  ++messages_;
  const TaskId received = graph_.Send(found->second, bytes, std::move(after));
  runs_.resize(graph_.tasks.size(), kMessage);
  return {received};
}

TaskList Cluster::Join(TaskList tasks) {
  if (tasks.size() <= 1) return tasks;
  runs_.push_back(HasMessage(tasks) ? kMessage : kJoin);
  const TaskId joined = graph_.Add({.after = std::move(tasks)});
  return {joined};
}

double Cluster::MessagePathMs(const simulate::Timeline& timeline) const {
  double ms = 0;
  for (const TaskId task : timeline.critical_path) {
    if (runs_[task] == kMessage) ms += timeline.tasks[task].LengthMs();
  }
  return ms;
}

double Cluster::ComputingShare(const simulate::Timeline& timeline) const {
  if (timeline.makespan_ms <= 0) return 0;
  std::vector<std::vector<simulate::Span>> spans(static_cast<size_t>(devices_));
  for (size_t task = 0; task < timeline.tasks.size(); ++task) {
    if (runs_[task] < 0) continue;
    spans[runs_[task]].push_back(timeline.tasks[task]);
  }
  double computing_ms = 0;
  for (std::vector<simulate::Span>& of_device : spans) {
    std::sort(of_device.begin(), of_device.end(),
              [](const auto& a, const auto& b) { return a.begin_ms < b.begin_ms; });
    double end_ms = 0;
    for (const simulate::Span& span : of_device) {
      computing_ms += std::max(0.0, span.end_ms - std::max(end_ms, span.begin_ms));
      end_ms = std::max(end_ms, span.end_ms);
    }
  }
  return computing_ms / (timeline.makespan_ms * devices_);
}

}  // namespace ucudnn::multigrid
