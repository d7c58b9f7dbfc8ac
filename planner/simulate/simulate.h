// What a graph of tasks does over time: when each begins and ends, what held up the last one, and
// how well resources were used. A pure function; times are modelled, never measured.
#pragma once

#include <array>
#include <vector>

#include "base/status.h"
#include "planner/simulate/task_graph.h"

namespace ucudnn::simulate {

struct Span {
  double begin_ms = 0;
  double end_ms = 0;  // later than begin + duration where the task's resource was overfilled

  double LengthMs() const { return end_ms - begin_ms; }
  bool operator==(const Span&) const = default;
};

// Why a task began when it did, and not before.
enum class HeldBy {
  kNothing,     // it began at 0
  kDependency,  // a task of its `after` ended then
  kQueue,       // the task before it in its queue did
  kSlot,        // a task that had held the slot which it took did
};

struct PathTask {
  TaskId task = kNone;
  HeldBy held_by = HeldBy::kNothing;  // the task before it on the path

  bool operator==(const PathTask&) const = default;
};

struct ResourceUse {
  int tasks = 0;
  double busy_ms = 0;    // with at least one task
  double task_ms = 0;    // of all tasks, one after the other
  double work_ms = 0;    // duration times share, of all tasks: makespan_ms is no less
  int most_at_once = 0;  // over any time longer than 0

  // The average over the time in which it was busy; 0 if it never was.
  double AtOnce() const { return busy_ms > 0 ? task_ms / busy_ms : 0; }
};

struct ActivityUse {
  double busy_ms = 0;   // with at least one task of this activity, anywhere
  double alone_ms = 0;  // of busy_ms, without a task of another activity
  double path_ms = 0;   // of makespan_ms, in tasks of the critical path

  bool operator==(const ActivityUse&) const = default;
};

struct Timeline {
  std::vector<Span> tasks;
  double makespan_ms = 0;
  // From a task that begins at 0 to the task that ends last (the first of them, by id). Each begins
  // at the moment when the one before it ends (of several dependencies that end then, the smallest
  // id), so their lengths add up to makespan_ms.
  std::vector<PathTask> critical_path;
  std::vector<ResourceUse> resources;
  std::array<ActivityUse, kActivities> activities;  // by Activity
};

// Takes O((tasks + dependencies) log tasks) time. The same graph gives the same timeline, to the
// bit. Where no resource is overfilled, a task ends at exactly begin + duration.
// The error is one line that names the task or resource: a value that is negative, not finite or
// out of range, an id that is not there, dependencies that form a cycle, or a queue in which a task
// stands behind one that waits for it.
Result<Timeline> Simulate(const TaskGraph& graph);

}  // namespace ucudnn::simulate
