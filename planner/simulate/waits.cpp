#include "planner/simulate/waits.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <string>

namespace ucudnn::simulate {
namespace {

// The largest permitted sum of all durations. It bounds every end, and is so far below the largest
// double that rounding cannot give infinity.
constexpr double kMostMs = 1e300;
// A message names at most this many waits of a cycle.
constexpr size_t kToldWaits = 8;

std::string Called(const char* what, int id, const std::string& name) {
  std::string text = what + std::to_string(id);
  if (!name.empty()) text += " (" + name + ")";
  return text;
}

std::string CalledTask(const TaskGraph& graph, TaskId id) {
  return Called("task ", id, graph.tasks[Position(id)].name);
}

template <typename T>
Status Refused(const std::string& who, const char* what, T value, const std::string& expected) {
  std::ostringstream text;
  text << who << ": " << what << " " << value << ", expected " << expected;
  return Status::Error(text.str());
}

template <typename List>
bool IsIn(const List& list, int id) {
  return id >= 0 && Position(id) < list.size();
}

std::string OneOf(const char* what, size_t count) {
  if (count == 0) return std::string("none: there are no ") + what + "s";
  return std::string("a ") + what + " of 0 to " + std::to_string(count - 1);
}

Status CheckTask(const TaskGraph& graph, TaskId id) {
  const Task& task = graph.tasks[Position(id)];
  const auto refused = [&](const char* what, auto value, const std::string& expected) {
    return Refused(CalledTask(graph, id), what, value, expected);
  };
  if (!std::isfinite(task.duration_ms) || task.duration_ms < 0) {
    return refused("duration in ms", task.duration_ms, "a finite number of at least 0");
  }
  if (!(task.share >= 0 && task.share <= 1)) return refused("share", task.share, "0 to 1");
  if (task.resource != kNone && !IsIn(graph.resources, task.resource)) {
    return refused("resource", task.resource, OneOf("resource", graph.resources.size()));
  }
  if (task.queue != kNone && !IsIn(graph.queues, task.queue)) {
    return refused("queue", task.queue, OneOf("queue", graph.queues.size()));
  }
  for (const TaskId before : task.after) {
    if (!IsIn(graph.tasks, before)) {
      return refused("waits for task", before, OneOf("task", graph.tasks.size()));
    }
  }
  return Status::Ok();
}

// A task that has not ended and for which another task waits.
struct Obstacle {
  TaskId task = kNone;
  bool is_of_queue = false;
};

Obstacle ObstacleOf(const TaskGraph& graph, const Waits& waits, TaskId task,
                    const std::vector<char>& ended) {
  for (const TaskId before : graph.tasks[Position(task)].after) {
    if (ended[Position(before)] == 0) return {before, false};
  }
  return {waits.ahead[Position(task)], true};
}

}  // namespace

Status Check(const TaskGraph& graph) {
  for (size_t i = 0; i < graph.resources.size(); ++i) {
    const Resource& resource = graph.resources[i];
    if (resource.slots < 1) {
      return Refused(Called("resource ", static_cast<int>(i), resource.name), "slots",
                     resource.slots, "at least 1");
    }
  }
  double sum_ms = 0;
  for (size_t i = 0; i < graph.tasks.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(CheckTask(graph, static_cast<TaskId>(i)));
    sum_ms += graph.tasks[i].duration_ms;
  }
  if (!(sum_ms <= kMostMs)) {
    return Refused("all tasks together", "duration in ms", sum_ms, "at most 1e300");
  }
  return Status::Ok();
}

Waits WaitsOf(const TaskGraph& graph) {
  const size_t tasks = graph.tasks.size();
  Waits waits;
  waits.first.assign(tasks + 1, 0);
  waits.ahead.assign(tasks, kNone);
  waits.behind.assign(tasks, kNone);
  waits.missing.assign(tasks, 0);
  std::vector<TaskId> last(graph.queues.size(), kNone);
  for (size_t i = 0; i < tasks; ++i) {
    const Task& task = graph.tasks[i];
    waits.missing[i] = static_cast<int>(task.after.size());
    for (const TaskId before : task.after) ++waits.first[Position(before) + 1];
    if (task.queue == kNone) continue;
    TaskId& ahead = last[Position(task.queue)];
    if (ahead != kNone) {
      waits.ahead[i] = ahead;
      waits.behind[Position(ahead)] = static_cast<TaskId>(i);
      ++waits.missing[i];
    }
    ahead = static_cast<TaskId>(i);
  }
  std::partial_sum(waits.first.begin(), waits.first.end(), waits.first.begin());
  waits.dependents.resize(waits.first.back());
  std::vector<size_t> next = waits.first;
  for (size_t i = 0; i < tasks; ++i) {
    for (const TaskId before : graph.tasks[i].after) {
      waits.dependents[next[Position(before)]++] = static_cast<TaskId>(i);
    }
  }
  return waits;
}

Status Deadlock(const TaskGraph& graph, const Waits& waits, const std::vector<char>& ended) {
  const auto first_stuck = std::find(ended.begin(), ended.end(), 0);
  std::vector<TaskId> cycle;
  std::vector<bool> is_seen(ended.size(), false);
  TaskId task = static_cast<TaskId>(first_stuck - ended.begin());
  while (!is_seen[Position(task)]) {
    is_seen[Position(task)] = true;
    cycle.push_back(task);
    task = ObstacleOf(graph, waits, task, ended).task;
  }
  cycle.erase(cycle.begin(), std::find(cycle.begin(), cycle.end(), task));

  bool has_queues = false;
  std::string text = CalledTask(graph, cycle.front());
  for (size_t i = 0; i < cycle.size(); ++i) {
    const Obstacle obstacle = ObstacleOf(graph, waits, cycle[i], ended);
    has_queues = has_queues || obstacle.is_of_queue;
    if (i >= kToldWaits) continue;
    if (i > 0) text += ", which";
    if (obstacle.is_of_queue) {
      const QueueId queue = graph.tasks[Position(cycle[i])].queue;
      const std::string& name = graph.queues[Position(queue)].name;
      text += " stands in " + Called("queue ", queue, name) + " behind ";
    } else {
      text += " waits for ";
    }
    text += CalledTask(graph, obstacle.task);
  }
  if (cycle.size() > kToldWaits) {
    text += ", and so on back to " + CalledTask(graph, cycle.front()) + ": " +
            std::to_string(cycle.size()) + " tasks in all";
  }
  return Status::Error((has_queues ? "the order of queues contradicts dependencies: "
                                   : "dependencies form a cycle: ") +
                       text);
}

}  // namespace ucudnn::simulate
