// Runs a graph of tasks over time: computes when each begins and ends, which tasks held up the last
// one, and how well resources were used. A pure function. Times are modelled, never measured.
#pragma once

#include <array>
#include <vector>

#include "base/status.h"
#include "planner/simulate/task_graph.h"

namespace ucudnn::simulate {

struct Span {
  double begin_ms = 0;
  double end_ms = 0;  // later than begin + duration if the task's resource was overfilled

  double LengthMs() const { return end_ms - begin_ms; }
  bool operator==(const Span&) const = default;
};

// The reason why a task did not begin earlier.
enum class HeldBy {
  kNothing,     // it began at 0
  kDependency,  // a task of its `after` ended at that moment
  kQueue,       // the preceding task of its queue ended at that moment
  kSlot,        // the task that had held its slot ended at that moment
};

struct PathTask {
  TaskId task = kNone;
  // The reason why the task waited for the preceding task on the path.
  HeldBy held_by = HeldBy::kNothing;

  bool operator==(const PathTask&) const = default;
};

struct ResourceUse {
  int tasks = 0;
  double busy_ms = 0;    // time with at least one task
  double task_ms = 0;    // sum of the times that all tasks took
  double work_ms = 0;    // sum of duration times share of all tasks; makespan_ms is at least this
  int most_at_once = 0;  // most tasks that ran together for longer than 0 ms

  // Returns the average number of tasks over the busy time; 0 if it never was busy.
  double AtOnce() const { return busy_ms > 0 ? task_ms / busy_ms : 0; }
};

struct ActivityUse {
  double busy_ms = 0;   // time with at least one task of this activity on any resource
  double alone_ms = 0;  // part of busy_ms without a task of another activity
  double path_ms = 0;   // part of makespan_ms that tasks of this activity on the critical path take

  bool operator==(const ActivityUse&) const = default;
};

struct Timeline {
  std::vector<Span> tasks;
  double makespan_ms = 0;
  // Begins with a task that begins at 0, and ends with the task that ends last (the smallest id
  // among equals). Each task begins when the preceding one ends (the smallest id if several
  // dependencies end at that moment), so the lengths of the tasks add up to makespan_ms.
  std::vector<PathTask> critical_path;
  std::vector<ResourceUse> resources;
  std::array<ActivityUse, kActivities> activities;  // by Activity
};

// Takes O((tasks + dependencies) log tasks) time. The same graph gives the same timeline, to the
// bit. If no resource is overfilled, a task ends at exactly begin + duration. An error is one line
// that names the task or resource and one of these faults: a value is negative, not finite or out
// of range; an id does not exist; dependencies form a cycle; a task stands in a queue behind a task
// that waits for it.
Result<Timeline> Simulate(const TaskGraph& graph);

}  // namespace ucudnn::simulate
