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

TaskId TaskGraph::Send(const Link& link, double bytes, std::vector<TaskId> after) {
  const TaskId sent = Add({.duration_ms = bytes / (link.gb_per_s * kBytesPerMsOfGbPerS),
                           .resource = link.resource,
                           .after = std::move(after)});
  if (link.latency_us == 0) return sent;
  return Add({.duration_ms = link.latency_us / kUsPerMs, .after = {sent}});
}

}  // namespace ucudnn::simulate
