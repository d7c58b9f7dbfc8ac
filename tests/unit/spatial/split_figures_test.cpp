// Tests the figures of a rank's split calls in the report: each kernel's outcome, bytes and times.
#include <gtest/gtest.h>

#include <vector>

#include "spatial/kernel_log.h"
#include "tests/unit/spatial/random_layers.h"

namespace ucudnn::test {
namespace {

using spatial::KernelFigures;
using spatial::RankFigures;
using spatial::Span;

std::vector<RankFigures> FiguresOf(RankJob& job) {
  return OnEach(job, [](RankState& rank) {
    EXPECT_EQ(cuStreamSynchronize(rank.stream), CUDA_SUCCESS);
    return rank.calls->kernel_figures();
  });
}

// Returns the calls of a network of two layers: forward, then both gradients.
std::vector<SplitLayer> NetworkOver(const SpatialGrid& grid) {
  std::vector<SplitLayer> layers;
  const AxisExtents extents = {{{1},
                                std::vector<int64_t>(static_cast<size_t>(grid.h), 8),
                                std::vector<int64_t>(static_cast<size_t>(grid.w), 6)}};
  for (const Operation operation : kOperations) {
    layers.emplace_back(Layer(operation, 1, 3), grid, extents);
    layers.emplace_back(Layer(operation, 1, 1), grid, extents);
  }
  return layers;
}

TEST(SplitFigures, BytesAreTheLeastAndWhatPassesThroughChannels) {
  for (const char* const grid : {"h2", "h4", "h2w2"}) {
    SCOPED_TRACE(grid);
    Traffic traffic;
    RankJob job(Counted({.grid = grid}, traffic));
    const std::vector<SplitLayer> layers = NetworkOver(job.grid());
    constexpr int kSteps = 2;
    for (int step = 0; step < kSteps; ++step) {
      for (const SplitLayer& layer : layers) ExpectExactOnAll(job, layer);
    }
    uint64_t received = 0, sent = 0;
    for (const RankFigures& rank : FiguresOf(job)) {
      ASSERT_EQ(rank.kernels.size(), layers.size());
      for (size_t at = 0; at < layers.size(); ++at) {
        const KernelFigures& kernel = rank.kernels[at];
        EXPECT_EQ(kernel.facts.outcome, spatial::SplitOutcome::kTransparent);
        EXPECT_EQ(kernel.calls, uint64_t{kSteps});
        EXPECT_EQ(kernel.facts.sent_bytes, kernel.facts.least_sent_bytes);
        EXPECT_EQ(kernel.facts.received_bytes, kernel.facts.least_received_bytes);
        EXPECT_EQ(kernel.facts.received_bytes > 0, kernel.facts.problem.w[1] > 1);
        EXPECT_EQ(kernel.times.calls, 0u) << "without a report nothing is timed";
        received += kernel.calls * kernel.facts.received_bytes;
        sent += kernel.calls * kernel.facts.sent_bytes;
      }
      EXPECT_EQ(rank.step.number, 0u);
    }
    EXPECT_EQ(received, sent);
    EXPECT_EQ(received, static_cast<uint64_t>(traffic.received.load()));
  }
}

TEST(SplitFigures, ARefusedKernelHasItsReason) {
  RankJob job;
  ConvolutionProblem valid = Layer(Operation::kForward, 8);
  valid.pad = {0, 0, 0};
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunOwn(job, {valid, valid}), Statuses(2, kRefused));
  EXPECT_EQ(RunOwn(job, {valid, valid}), Statuses(2, kRefused));
  testing::internal::GetCapturedStderr();
  ExpectExactOnAll(job, SplitLayer(Operation::kForward, 4, 3));
  for (const RankFigures& rank : FiguresOf(job)) {
    ASSERT_EQ(rank.kernels.size(), 2u);
    const KernelFigures& refused = rank.kernels[0];
    EXPECT_EQ(refused.facts.outcome, spatial::SplitOutcome::kRefused);
    ExpectContains(refused.facts.refusal, {"h: ", "pad"});
    EXPECT_EQ(refused.calls, 2u);
    EXPECT_EQ(refused.facts.problem.x[1], 8);
    EXPECT_EQ(rank.kernels[1].facts.outcome, spatial::SplitOutcome::kTransparent);
    EXPECT_EQ(rank.kernels[1].calls, 1u);
  }
}

double LengthOf(const RankFigures& rank, const spatial::StepTimes::Call& call, size_t begin,
                Span span) {
  double length = 0;
  for (size_t at = begin; at < call.end; ++at) {
    const spatial::TimedSpan& one = rank.step.spans[at];
    if (one.span == span) length += one.length_ms;
  }
  return length;
}

void ExpectTimes(const RankFigures& rank, uint64_t timed_calls) {
  for (const KernelFigures& kernel : rank.kernels) {
    const spatial::KernelTimes& times = kernel.times;
    EXPECT_EQ(times.calls, timed_calls);
    EXPECT_GT(times.own_ms, 0);
    EXPECT_GE(times.exposed_ms, 0);
    EXPECT_GE(times.exposed_sum_ms, 0);
    EXPECT_GE(times.call_ms, times.own_ms + times.exposed_ms + times.exposed_sum_ms - 1e-3);
    EXPECT_EQ(times.exchange_ms > 0, kernel.facts.received_bytes > 0);
    EXPECT_EQ(times.sum_ms > 0, kernel.facts.summed_bytes > 0);
  }
}

TEST(SplitFigures, TheSecondStepIsTimedAndTheSixtySixth) {
  for (const char* const grid : {"h2", "h4"}) {
    SCOPED_TRACE(grid);
    RankJob job({.grid = grid, .times_exchanges = true});
    const std::vector<SplitLayer> layers = NetworkOver(job.grid());
    const auto run = [&](uint64_t steps) {
      job.OnAll([&](RankState& rank) {
        for (uint64_t step = 0; step < steps; ++step) {
          for (const SplitLayer& layer : layers) EXPECT_EQ(layer.RunOn(rank).status, kFine);
        }
      });
    };
    run(3);
    for (const RankFigures& rank : FiguresOf(job)) {
      ExpectTimes(rank, 1);
      EXPECT_EQ(rank.step.number, 2u);
      ASSERT_EQ(rank.step.calls.size(), layers.size());
      size_t begin = 0;
      for (size_t at = 0; at < layers.size(); ++at) {
        const spatial::StepTimes::Call& call = rank.step.calls[at];
        EXPECT_EQ(call.kernel, static_cast<int>(at));
        ASSERT_LT(begin, call.end);
        EXPECT_GE(rank.step.spans[begin].begin_ms, 0);
        EXPECT_GT(LengthOf(rank, call, begin, Span::kCall), 0);
        EXPECT_EQ(LengthOf(rank, call, begin, Span::kExchange) > 0,
                  rank.kernels[at].facts.received_bytes > 0);
        begin = call.end;
      }
      EXPECT_EQ(begin, rank.step.spans.size());
    }
    run(1 + spatial::ExchangeTimes::kPeriod);
    for (const RankFigures& rank : FiguresOf(job)) {
      ExpectTimes(rank, 2);
      EXPECT_EQ(rank.step.number, 2 + spatial::ExchangeTimes::kPeriod);
    }
  }
}

}  // namespace
}  // namespace ucudnn::test
