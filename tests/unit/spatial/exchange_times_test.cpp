// Tests which calls are timed, and that no call waits for a device that lags.
#include "spatial/kernel_log.h"

#include <gtest/gtest.h>

#include "tests/support/event_driver.h"

namespace ucudnn::test {
namespace {

using spatial::ExchangeTimes;
using spatial::RankFigures;
using spatial::Span;
using spatial::SpanScope;

class ExchangeTimesTest : public testing::Test {
 protected:
  // Makes a call with `spans` spans: the span of the call itself, and inside it exchanges, one
  // after the other.
  void Call(int kernel, int spans = 1) {
    const auto at = static_cast<size_t>(kernel);
    if (called_.size() <= at) called_.resize(at + 1);
    const bool is_first = !called_[at];
    called_[at] = true;
    if (!times_.Begin(kernel, is_first, nullptr)) return;
    {
      const SpanScope whole(&times_, Span::kCall, nullptr);
      for (int i = 1; i < spans; ++i) const SpanScope span(&times_, Span::kExchange, nullptr);
    }
    times_.End();
  }
  void Steps(int count, int kernels) {
    for (int step = 0; step < count; ++step) {
      for (int kernel = 0; kernel < kernels; ++kernel) Call(kernel);
    }
  }
  RankFigures Read(size_t kernels) {
    RankFigures figures;
    figures.kernels.resize(kernels);
    times_.Read(figures);
    return figures;
  }

  EventDriver events_;
  ExchangeTimes times_{events_.driver()};
  std::vector<bool> called_;
};

TEST_F(ExchangeTimesTest, TheSecondStepIsTimedAndEachBehindAPeriod) {
  Steps(1, 3);
  EXPECT_EQ(Read(3).step.number, 0u);
  Steps(1, 3);
  for (int i = 0; i < 2; ++i, Steps(1, 3)) {
    const RankFigures figures = Read(3);
    EXPECT_EQ(figures.step.number, 2u);
    EXPECT_EQ(figures.step.calls.size(), 3u);
    for (const auto& kernel : figures.kernels) {
      EXPECT_EQ(kernel.times.calls, 1u);
      EXPECT_EQ(kernel.times.call_ms, 1);
    }
  }
  Steps(static_cast<int>(ExchangeTimes::kPeriod), 3);
  const RankFigures figures = Read(3);
  EXPECT_EQ(figures.step.number, 2 + ExchangeTimes::kPeriod);
  EXPECT_EQ(figures.kernels[1].times.calls, 2u);
}

TEST_F(ExchangeTimesTest, AKernelsFirstCallIsNotTimed) {
  Steps(1, 2);
  Steps(1, 3);
  const RankFigures figures = Read(3);
  EXPECT_EQ(figures.kernels[1].times.calls, 1u);
  EXPECT_EQ(figures.kernels[2].times.calls, 0u);
  EXPECT_EQ(figures.step.calls.size(), 2u);
}

TEST_F(ExchangeTimesTest, SpansBeginAfterTheStepAndLieInTheirCall) {
  Steps(1, 1);
  Call(0, 3);
  const RankFigures figures = Read(1);
  ASSERT_EQ(figures.step.spans.size(), 3u);
  const spatial::TimedSpan& call = figures.step.spans[0];
  EXPECT_EQ(call.span, Span::kCall);
  EXPECT_EQ(call.begin_ms, 1);
  EXPECT_EQ(call.length_ms, 5);
  EXPECT_EQ(figures.step.spans[2].begin_ms, 4);
  EXPECT_EQ(figures.kernels[0].times.exchange_ms, 2);
}

// cuEventSynchronize is null here, so waiting would crash.
TEST_F(ExchangeTimesTest, NobodyWaitsForADeviceThatLags) {
  events_.set_lags(true);
  Steps(10, 3);
  EXPECT_TRUE(Read(3).step.calls.empty());
  EXPECT_EQ(Read(3).kernels[0].times.calls, 0u);
  events_.set_lags(false);
  EXPECT_EQ(Read(3).step.number, 2u);
  EXPECT_EQ(Read(3).step.calls.size(), 3u);
  EXPECT_EQ(Read(3).kernels[0].times.calls, 1u);
}

TEST_F(ExchangeTimesTest, CallsBeyondThoseThatMayBePendingAreNotTimed) {
  Call(0);
  for (int i = 0; i < 600; ++i) Call(1);
  events_.set_lags(true);
  Call(0);
  for (int i = 0; i < 600; ++i) Call(1);
  events_.set_lags(false);
  EXPECT_EQ(Read(2).step.calls.size(), ExchangeTimes::kMostPending);
}

TEST_F(ExchangeTimesTest, CallsWithoutAFreeEventAreNotTimed) {
  constexpr int kSpans = 20;
  Call(0, kSpans);
  for (int i = 0; i < 300; ++i) Call(1, kSpans);
  events_.set_lags(true);
  Call(0, kSpans);
  for (int i = 0; i < 300; ++i) Call(1, kSpans);
  events_.set_lags(false);
  EXPECT_EQ(Read(2).step.calls.size(), ExchangeTimes::kEvents / (2 * kSpans));
  Call(0, static_cast<int>(ExchangeTimes::kMostSpans) + 1);
  Steps(static_cast<int>(ExchangeTimes::kPeriod) - 2, 1);
  // The first of these two calls is the next timed step, but has too many spans to be counted. The
  // second call is in a step that is not timed.
  Call(0, static_cast<int>(ExchangeTimes::kMostSpans) + 1);
  Call(0);
  EXPECT_EQ(Read(2).kernels[0].times.calls, 1u);
}

TEST_F(ExchangeTimesTest, ACallWhoseEventsFailIsLeftOut) {
  Steps(1, 3);
  Call(0);
  events_.set_fails(true);
  Call(1);
  events_.set_fails(false);
  Call(2);
  const RankFigures figures = Read(3);
  EXPECT_EQ(figures.step.calls.size(), 2u);
  EXPECT_EQ(figures.kernels[1].times.calls, 0u);
  EXPECT_EQ(figures.kernels[2].times.calls, 1u);
}

TEST_F(ExchangeTimesTest, WhereTheFirstKernelDoesNotComeAgainAnotherBeginsSteps) {
  Call(0);
  for (size_t i = 0; i < ExchangeTimes::kMostCalls; ++i) Call(1 + static_cast<int>(i % 2));
  const RankFigures figures = Read(3);
  EXPECT_EQ(figures.step.number, 2u);
  EXPECT_EQ(figures.kernels[0].times.calls, 0u);
  Steps(1, 3);
  EXPECT_GT(Read(3).kernels[1].times.calls + Read(3).kernels[2].times.calls, 0u);
}

}  // namespace
}  // namespace ucudnn::test
