// Draws random graphs of tasks, and checks properties that the timeline of every graph must have.
#pragma once

#include <random>

#include "planner/simulate/simulate.h"

namespace ucudnn::simulate {

struct GraphShape {
  int tasks = 12;              // at most
  int resources = 3;           // at most
  bool whole_ms = false;       // durations are whole, and no resource is overfilled
  bool has_deadlocks = false;  // some tasks depend on tasks that are added later
};

class RandomGraphs {
 public:
  explicit RandomGraphs(unsigned seed) : random_(seed) {}

  TaskGraph Next(const GraphShape& shape);

 private:
  int Draw(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  void AddResources(const GraphShape& shape, TaskGraph& graph);
  double DurationMs(const GraphShape& shape);
  double Share(const GraphShape& shape, const Resource& resource);

  std::mt19937 random_;
};

// Returns the length of the longest chain of tasks, of which each must wait for the previous one
// because of a dependency or a queue. Ignores that resources are shared. REQUIRES: tasks depend
// only on tasks that were added before.
double LongestChainMs(const TaskGraph& graph);

// Fails the test unless the critical path leads from 0 to the makespan without a gap, and each of
// its tasks had to wait for the previous one.
void ExpectPathExplains(const TaskGraph& graph, const Timeline& timeline);

}  // namespace ucudnn::simulate
