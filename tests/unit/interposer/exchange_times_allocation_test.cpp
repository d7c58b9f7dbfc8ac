// Tests that counting and timing split calls allocates nothing in steady state.
#include <gtest/gtest.h>

#include "spatial/kernel_log.h"
#include "tests/bench/allocation_count.h"
#include "tests/support/event_driver.h"

namespace ucudnn {
namespace {

TEST(ExchangeTimes, AllocateNothingAfterEachKernelsFirstCall) {
  const test::EventDriver events;
  spatial::ExchangeTimes times(events.driver());
  spatial::KernelLog log;
  constexpr int kKernels = 5;
  for (int kernel = 0; kernel < kKernels; ++kernel) {
    spatial::KernelFacts facts;
    facts.common = std::to_string(kernel);
    ASSERT_EQ(log.Add(facts), kernel);
  }
  const auto step = [&] {
    for (int kernel = 0; kernel < kKernels; ++kernel) {
      const bool is_first = log.Count(kernel, false) == 0;
      if (!times.Begin(kernel, is_first, nullptr)) continue;
      {
        const spatial::SpanScope whole(&times, spatial::Span::kCall, nullptr);
        const spatial::SpanScope own(&times, spatial::Span::kOwn, nullptr);
      }
      times.End();
    }
  };
  step();
  const long before = bench::Allocations();
  for (int i = 0; i < 200; ++i) step();
  EXPECT_EQ(bench::Allocations() - before, 0);
  spatial::RankFigures figures = log.Read();
  times.Read(figures);
  EXPECT_EQ(figures.kernels[0].calls, 201u);
  // Every 64th step (ExchangeTimes::kPeriod) is timed: steps 2, 66, 130 and 194 of 201.
  EXPECT_EQ(figures.kernels[0].times.calls, 4u);
}

}  // namespace
}  // namespace ucudnn
