// Runs a graph of tasks over time: when each begins and ends, what held up the last task, and how
// well resources were used. A pure function. Times are modelled, never measured.
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

// What a task waited for until it began.
enum class HeldBy {
  kNothing,     // it began at 0
  kDependency,  // a task of its `after` ended then
  kQueue,       // the task before it in its queue ended then
  kSlot,        // the task that had held its slot ended then
};

struct PathTask {
  TaskId task = kNone;
  HeldBy held_by = HeldBy::kNothing;  // what it waited for: the preceding task on the path

  bool operator==(const PathTask&) const = default;
};

struct ResourceUse {
  int tasks = 0;
  double busy_ms = 0;    // time with at least one task
  double task_ms = 0;    // durations of all tasks added up
  double work_ms = 0;    // duration times share, over all tasks; makespan_ms is at least this
  int most_at_once = 0;  // over any time longer than 0

  // Returns the average number of tasks over the busy time; 0 if it never was busy.
  double AtOnce() const { return busy_ms > 0 ? task_ms / busy_ms : 0; }
};

struct ActivityUse {
  double busy_ms = 0;   // time with at least one task of this activity, anywhere
  double alone_ms = 0;  // part of busy_ms without a task of another activity
  double path_ms = 0;   // part of makespan_ms in tasks of the critical path

  bool operator==(const ActivityUse&) const = default;
};

struct Timeline {
  std::vector<Span> tasks;
  double makespan_ms = 0;
  // Leads from a task that begins at 0 to the task that ends last (the smallest id among equals).
  // Each task begins when the preceding one ends (the smallest id if several dependencies end
  // then), so that the lengths add up to makespan_ms.
  std::vector<PathTask> critical_path;
  std::vector<ResourceUse> resources;
  std::array<ActivityUse, kActivities> activities;  // by Activity
};

// Takes O((tasks + dependencies) log tasks) time. The same graph gives the same timeline, to the
// bit. If no resource is overfilled, a task ends at exactly begin + duration. The error is one line
// that names the task or resource, with one of these faults: a value that is negative, not finite
// or out of range; an id that does not exist; dependencies that form a cycle; a queue in which a
// task stands behind one that waits for it.
Result<Timeline> Simulate(const TaskGraph& graph);

}  // namespace ucudnn::simulate
