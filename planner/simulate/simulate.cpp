#include "planner/simulate/simulate.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <utility>

#include "planner/simulate/critical_path.h"
#include "planner/simulate/shared_resource.h"
#include "planner/simulate/waits.h"

namespace ucudnn::simulate {
namespace {

// The end of a task that runs on no resource, or the next end on a resource. An event of a resource
// is void once the resource has another version. The order of events at the same time changes no
// result.
struct Event {
  double ms = 0;
  TaskId task = kNone;
  ResourceId resource = kNone;
  unsigned version = 0;

  bool operator>(const Event& other) const { return ms > other.ms; }
};

class Simulation {
 public:
  explicit Simulation(const TaskGraph& graph);

  Result<Timeline> Run();

 private:
  bool HasEvent();
  void BecomeReady(double now_ms, TaskId task);
  void End(double now_ms, TaskId task);
  void EndAllAt(double now_ms);
  void BeginReady(double now_ms);
  void BeginOn(double now_ms, ResourceId resource);

  const TaskGraph& graph_;
  Waits waits_;
  std::vector<SharedResource> resources_;
  std::vector<unsigned> versions_;  // by resource
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;

  std::vector<TaskId> ready_;  // tasks with a resource that became ready at this moment
  // Resources whose running or waiting tasks changed at this moment. They may begin tasks, and need
  // a new Event.
  std::vector<ResourceId> changed_;
  std::vector<char> is_changed_;        // by resource
  std::vector<TaskId> ended_together_;  // tasks that ended together on one resource

  std::vector<char> has_ended_;    // by task
  std::vector<TaskId> slot_from_;  // by task: the argument of CriticalPath
  Timeline timeline_;
};

Simulation::Simulation(const TaskGraph& graph)
    : graph_(graph),
      waits_(WaitsOf(graph)),
      versions_(graph.resources.size(), 0),
      is_changed_(graph.resources.size(), 0),
      has_ended_(graph.tasks.size(), 0),
      slot_from_(graph.tasks.size(), kNone) {
  for (const Resource& resource : graph.resources) resources_.emplace_back(resource.slots);
  timeline_.tasks.resize(graph.tasks.size());
}

Result<Timeline> Simulation::Run() {
  for (size_t i = 0; i < graph_.tasks.size(); ++i) {
    if (waits_.missing[i] == 0) BecomeReady(0, static_cast<TaskId>(i));
  }
  EndAllAt(0);
  BeginReady(0);
  while (HasEvent()) {
    const double now_ms = events_.top().ms;
    timeline_.makespan_ms = now_ms;
    EndAllAt(now_ms);
    BeginReady(now_ms);
  }
  if (std::find(has_ended_.begin(), has_ended_.end(), 0) != has_ended_.end()) {
    return Deadlock(graph_, waits_, has_ended_);
  }
  timeline_.critical_path = CriticalPath(graph_, waits_, timeline_.tasks, slot_from_);
  return std::move(timeline_);
}

// Drops void events. Returns whether an event is left.
bool Simulation::HasEvent() {
  while (!events_.empty()) {
    const Event& event = events_.top();
    if (event.resource == kNone || event.version == versions_[Position(event.resource)]) {
      return true;
    }
    events_.pop();
  }
  return false;
}

// Tasks with a resource are collected in ready_, because they are queued in the order of ids once
// all tasks that become ready at this moment are known.
void Simulation::BecomeReady(double now_ms, TaskId id) {
  const Task& task = graph_.tasks[Position(id)];
  if (task.resource != kNone) {
    ready_.push_back(id);
    return;
  }
  timeline_.tasks[Position(id)].begin_ms = now_ms;
  events_.push({.ms = now_ms + task.duration_ms, .task = id});
}

void Simulation::End(double now_ms, TaskId id) {
  const size_t at = Position(id);
  timeline_.tasks[at].end_ms = now_ms;
  has_ended_[at] = 1;
  const auto one_less = [&](TaskId waiting) {
    if (--waits_.missing[Position(waiting)] == 0) BecomeReady(now_ms, waiting);
  };
  for (size_t i = waits_.first[at]; i < waits_.first[at + 1]; ++i) one_less(waits_.dependents[i]);
  if (waits_.behind[at] != kNone) one_less(waits_.behind[at]);
}

// Ends all tasks that end now. These include tasks of no duration and on no resource that become
// ready now, so that the tasks that wait for them become ready now, too.
void Simulation::EndAllAt(double now_ms) {
  while (HasEvent() && events_.top().ms == now_ms) {
    const Event event = events_.top();
    events_.pop();
    if (event.resource == kNone) {
      End(now_ms, event.task);
      continue;
    }
    const size_t at = Position(event.resource);
    ended_together_.clear();
    resources_[at].EndNext(now_ms, ended_together_);
    if (std::exchange(is_changed_[at], 1) == 0) changed_.push_back(event.resource);
    for (const TaskId task : ended_together_) End(now_ms, task);
  }
}

void Simulation::BeginReady(double now_ms) {
  std::sort(ready_.begin(), ready_.end());
  for (const TaskId id : ready_) {
    const ResourceId resource = graph_.tasks[Position(id)].resource;
    resources_[Position(resource)].Wait(id);
    if (std::exchange(is_changed_[Position(resource)], 1) == 0) changed_.push_back(resource);
  }
  ready_.clear();
  for (const ResourceId resource : changed_) BeginOn(now_ms, resource);
  changed_.clear();
}

void Simulation::BeginOn(double now_ms, ResourceId id) {
  const size_t at = Position(id);
  SharedResource& resource = resources_[at];
  for (TaskId next = resource.TakeNext(); next != kNone; next = resource.TakeNext()) {
    const Task& task = graph_.tasks[Position(next)];
    timeline_.tasks[Position(next)].begin_ms = now_ms;
    slot_from_[Position(next)] = resource.LastEnded();
    resource.Begin(now_ms, next, task.duration_ms, task.share);
  }
  is_changed_[at] = 0;
  ++versions_[at];
  if (resource.IsIdle()) return;
  events_.push({.ms = resource.NextEndMs(), .resource = id, .version = versions_[at]});
}

}  // namespace

Result<Timeline> Simulate(const TaskGraph& graph) {
  UCUDNN_RETURN_IF_ERROR(Check(graph));
  return Simulation(graph).Run();
}

}  // namespace ucudnn::simulate
