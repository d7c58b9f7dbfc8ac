// Runs simulations and prints their results, for tests.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "planner/simulate/simulate.h"

namespace ucudnn::simulate {

inline void PrintTo(const Span& span, std::ostream* out) {
  *out << span.begin_ms << " to " << span.end_ms << " ms";
}

inline void PrintTo(const PathTask& step, std::ostream* out) {
  *out << "task " << step.task << " held by " << static_cast<int>(step.held_by);
}

inline void PrintTo(const ActivityUse& use, std::ostream* out) {
  *out << use.busy_ms << " ms busy, " << use.alone_ms << " alone, " << use.path_ms
       << " on the path";
}

// Fails the test if the graph is refused.
inline Timeline Simulated(const TaskGraph& graph) {
  Result<Timeline> timeline = Simulate(graph);
  EXPECT_TRUE(timeline.ok()) << timeline.message();
  return timeline.ok() ? *timeline : Timeline{};
}

inline const ActivityUse& UseOf(const Timeline& timeline, Activity activity) {
  return timeline.activities[static_cast<size_t>(activity)];
}

}  // namespace ucudnn::simulate
