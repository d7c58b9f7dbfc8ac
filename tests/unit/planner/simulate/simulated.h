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

// Returns the timeline of the graph. Fails the test if the graph is refused.
inline Timeline Simulated(const TaskGraph& graph) {
  Result<Timeline> timeline = Simulate(graph);
  EXPECT_TRUE(timeline.ok()) << timeline.message();
  return timeline.ok() ? *timeline : Timeline{};
}

}  // namespace ucudnn::simulate
