#include "planner/simulate/critical_path.h"

#include <algorithm>

namespace ucudnn::simulate {
namespace {

// The task whose end allowed another task to begin, and the reason why that task had waited.
struct Holder {
  TaskId task = kNone;
  HeldBy why = HeldBy::kNothing;
};

Holder HolderOf(const Task& task, TaskId ahead, double begin_ms, const std::vector<Span>& tasks) {
  Holder holder;
  for (const TaskId before : task.after) {
    const bool is_last = tasks[Position(before)].end_ms == begin_ms;
    if (is_last && (holder.task == kNone || before < holder.task)) {
      holder = {before, HeldBy::kDependency};
    }
  }
  if (holder.task == kNone && ahead != kNone && tasks[Position(ahead)].end_ms == begin_ms) {
    holder = {ahead, HeldBy::kQueue};
  }
  return holder;
}

}  // namespace

std::vector<PathTask> CriticalPath(const TaskGraph& graph, const Waits& waits,
                                   const std::vector<Span>& tasks,
                                   const std::vector<TaskId>& slot_from) {
  std::vector<PathTask> path;
  if (tasks.empty()) return path;
  const auto ends_earlier = [](const Span& a, const Span& b) { return a.end_ms < b.end_ms; };
  TaskId task = static_cast<TaskId>(std::max_element(tasks.begin(), tasks.end(), ends_earlier) -
                                    tasks.begin());
  while (task != kNone) {
    const size_t at = Position(task);
    const double begin_ms = tasks[at].begin_ms;
    Holder holder = HolderOf(graph.tasks[at], waits.ahead[at], begin_ms, tasks);
    if (holder.task == kNone && begin_ms > 0) holder = {slot_from[at], HeldBy::kSlot};
    path.push_back({task, holder.why});
    task = holder.task;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace ucudnn::simulate
