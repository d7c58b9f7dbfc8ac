// A resource during a simulation: the tasks that run on it, the tasks that wait for a slot, and the
// time of the next end. Not thread-safe.
//
// All tasks on a resource progress equally fast, so they share one clock of progress: a task ends
// when the clock has advanced by the task's duration since the task began. While the shares add up
// to at most 1, the clock advances as fast as time; otherwise it is slower by a factor of the sum
// of the shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "planner/simulate/task_graph.h"

namespace ucudnn::simulate {

// Times are ms since the start of the simulation and must not decrease from call to call.
class SharedResource {
 public:
  explicit SharedResource(int slots) : slots_(slots) {}

  // Queues the task behind all tasks that wait already.
  void Wait(TaskId task) { waiting_.push_back(task); }
  // Returns the next task that may begin now, or kNone if none waits or no slot is free.
  TaskId TakeNext();
  // REQUIRES: TakeNext() has just returned the task.
  void Begin(double now_ms, TaskId task, double duration_ms, double share);

  bool IsIdle() const { return running_.empty(); }
  // Returns the time at which the next task ends if no further task begins. REQUIRES: !IsIdle().
  double NextEndMs() const;
  // Appends the tasks that end at `now_ms`, which NextEndMs() returned. REQUIRES: !IsIdle().
  void EndNext(double now_ms, std::vector<TaskId>& ended);

  // Returns the first task that the last call of EndNext() appended, the one with the smallest id.
  // Returns kNone before the first call.
  TaskId LastEnded() const { return last_ended_; }

 private:
  struct Running {
    double progress_ms;  // value of progress_ms_ at which the task ends
    TaskId task;
    uint64_t load;
    bool operator>(const Running& other) const {
      return std::pair(progress_ms, task) > std::pair(other.progress_ms, other.task);
    }
  };

  void PassUntil(double now_ms);
  void SetLoad(uint64_t load);

  int slots_;
  std::vector<TaskId> waiting_;  // in order; tasks before first_waiting_ have begun
  size_t first_waiting_ = 0;
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running_;
  // The sum of the running tasks' loads. Integers return to exactly 0 when all tasks have ended.
  uint64_t load_ = 0;
  double slowdown_ = 1;
  double now_ms_ = 0;
  // Equal to now_ms_ from the moment the resource was last idle until it is overfilled.
  double progress_ms_ = 0;
  TaskId last_ended_ = kNone;
};

}  // namespace ucudnn::simulate
