#include "planner/simulate/task_graph.h"

#include <utility>

namespace ucudnn::simulate {
namespace {

constexpr double kBytesPerMsOfGbPerS = 1e6;
constexpr double kUsPerMs = 1e3;

}  // namespace

ResourceId TaskGraph::AddResource(std::string name, int slots) {
  resources.push_back({std::move(name), slots});
  return static_cast<ResourceId>(resources.size()) - 1;
}

QueueId TaskGraph::AddQueue(std::string name) {
  queues.push_back({std::move(name)});
  return static_cast<QueueId>(queues.size()) - 1;
}

TaskId TaskGraph::Add(Task task) {
  tasks.push_back(std::move(task));
  return static_cast<TaskId>(tasks.size()) - 1;
}

HostThread TaskGraph::AddHostThread(std::string name, double launch_ms) {
  return {AddQueue(std::move(name)), launch_ms};
}

TaskId TaskGraph::Launch(const HostThread& thread, Task task) {
  task.after.push_back(
      Add({.name = "launch " + task.name, .duration_ms = thread.launch_ms, .queue = thread.queue}));
  return Add(std::move(task));
}

std::array<Link, 2> TaskGraph::AddLink(const std::string& name, double gb_per_s, double latency_us,
                                       Duplex duplex) {
  const Link there = {AddResource(name, 1), gb_per_s, latency_us};
  Link back = there;
  if (duplex == Duplex::kFull) back.resource = AddResource(name + ", back", 1);
  return {there, back};
}

TaskId TaskGraph::Send(const Link& link, Message message) {
  const TaskId sent = Add({.name = message.name,
                           .duration_ms = message.bytes / (link.gb_per_s * kBytesPerMsOfGbPerS),
                           .resource = link.resource,
                           .queue = message.queue,
                           .after = std::move(message.after)});
  if (link.latency_us == 0) return sent;
  return Add({.name = "latency of " + message.name,
              .duration_ms = link.latency_us / kUsPerMs,
              .after = {sent}});
}

}  // namespace ucudnn::simulate
