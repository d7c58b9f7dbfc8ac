#include "planner/simulate/critical_path.h"

#include <algorithm>

namespace ucudnn::simulate {
namespace {

// Returns the task whose end allowed `task` to begin: one of task.after, or else `ahead`, the
// preceding task of the queue. Returns kNone if neither held `task` up.
TaskId HolderOf(const Task& task, TaskId ahead, double begin_ms, const std::vector<Span>& tasks) {
  TaskId holder = kNone;
  for (const TaskId before : task.after) {
    const bool is_last = tasks[Position(before)].end_ms == begin_ms;
    if (is_last && (holder == kNone || before < holder)) holder = before;
  }
  if (holder == kNone && ahead != kNone && tasks[Position(ahead)].end_ms == begin_ms) return ahead;
  return holder;
}

}  // namespace

std::vector<TaskId> CriticalPath(const TaskGraph& graph, const Waits& waits,
                                 const std::vector<Span>& tasks,
                                 const std::vector<TaskId>& slot_from) {
  std::vector<TaskId> path;
  if (tasks.empty()) return path;
  const auto ends_earlier = [](const Span& a, const Span& b) { return a.end_ms < b.end_ms; };
  TaskId task = static_cast<TaskId>(std::max_element(tasks.begin(), tasks.end(), ends_earlier) -
                                    tasks.begin());
  while (task != kNone) {
    const size_t at = Position(task);
    const double begin_ms = tasks[at].begin_ms;
    path.push_back(task);
    task = HolderOf(graph.tasks[at], waits.ahead[at], begin_ms, tasks);
    if (task == kNone && begin_ms > 0) task = slot_from[at];
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace ucudnn::simulate
