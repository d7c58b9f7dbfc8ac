#include "interposer/report/spatial_record.h"

#include <algorithm>

namespace ucudnn::interposer {
namespace {

constexpr const char* kOutcomeNames[] = {"transparent", "replicated", "refused"};

// Returns the axes that are cut into 2 to kMostAxisParts parts.
std::vector<SplitAxis> CutAxes(const HaloNeed& need) {
  std::vector<SplitAxis> axes;
  for (size_t axis = 0; axis < need.axes.size(); ++axis) {
    const AxisNeed& one = need.axes[axis];
    if (one.owned.size() < 2 || one.owned.size() > kMostAxisParts) continue;
    axes.push_back({"dhw"[axis], one.owned, one.needed});
  }
  return axes;
}

// Returns the averages over the timed calls; none if no call was timed.
std::optional<SplitTimes> MeanTimes(const spatial::KernelTimes& times) {
  if (times.calls == 0) return std::nullopt;
  const auto mean = [&](double ms) { return ms / static_cast<double>(times.calls); };
  return SplitTimes{.calls = static_cast<int64_t>(times.calls),
                    .call_ms = mean(times.call_ms),
                    .own_ms = mean(times.own_ms),
                    .exchange_ms = mean(times.exchange_ms),
                    .exposed_ms = mean(times.exposed_ms),
                    .hidden_ms = mean(std::max(times.exchange_ms - times.exposed_ms, 0.0)),
                    .sum_ms = mean(times.sum_ms),
                    .exposed_sum_ms = mean(times.exposed_sum_ms)};
}

// The byte counts in the entry are sums over all calls.
SplitKernelEntry ReportedKernelOf(const spatial::KernelFigures& kernel) {
  const spatial::KernelFacts& facts = kernel.facts;
  const uint64_t exchanges = kernel.calls - kernel.paired_calls;
  return {.kind = facts.kind,
          .op = OperationName(facts.problem.operation),
          .problem = facts.problem,
          .common = facts.common,
          .verdict = kOutcomeNames[static_cast<size_t>(facts.outcome)],
          .reason = facts.refusal,
          .calls = static_cast<int64_t>(kernel.calls),
          .paired_calls = static_cast<int64_t>(kernel.paired_calls),
          .sent_bytes = facts.sent_bytes * exchanges,
          .received_bytes = facts.received_bytes * exchanges,
          .least_sent_bytes = facts.least_sent_bytes * exchanges,
          .least_received_bytes = facts.least_received_bytes * exchanges,
          .summed_bytes = facts.summed_bytes * kernel.calls,
          .slices = facts.slices,
          .axes = CutAxes(facts.need),
          .times = MeanTimes(kernel.times)};
}

StepEntry ReportedStep(const spatial::StepTimes& step) {
  StepEntry told{static_cast<int64_t>(step.number), {}};
  size_t begin = 0;
  for (const spatial::StepTimes::Call& call : step.calls) {
    StepCallEntry& one = told.calls.emplace_back();
    one.kernel = static_cast<size_t>(call.kernel);
    for (; begin < call.end; ++begin) {
      const spatial::TimedSpan& span = step.spans[begin];
      one.spans.push_back({span.span, span.begin_ms, span.length_ms});
    }
  }
  return told;
}

}  // namespace

RankEntry ReportedRank(const spatial::RankFigures& figures) {
  RankEntry rank;
  rank.unlisted_calls = figures.unlisted_calls;
  for (const spatial::KernelFigures& kernel : figures.kernels) {
    rank.kernels.push_back(ReportedKernelOf(kernel));
  }
  rank.step = ReportedStep(figures.step);
  return rank;
}

}  // namespace ucudnn::interposer
