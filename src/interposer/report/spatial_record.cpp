#include "interposer/report/spatial_record.h"

#include <algorithm>
#include <cstdio>

#include "base/spatial_grid.h"
#include "interposer/report/json_text.h"

namespace ucudnn::interposer {
namespace {

using json::Fields;
using json::Scalar;

// An axis with more parts is left out, because its owned and needed positions concern many ranks.
constexpr size_t kMostParts = 64;

const char* VerdictName(spatial::Verdict verdict) {
  switch (verdict) {
    case spatial::Verdict::kTransparent:
      return "transparent";
    case spatial::Verdict::kReplicated:
      return "replicated";
    case spatial::Verdict::kRefused:
      break;
  }
  return "refused";
}

const char* SpanName(spatial::Span span) {
  switch (span) {
    case spatial::Span::kCall:
      return "call";
    case spatial::Span::kOwn:
      return "own";
    case spatial::Span::kExchange:
      return "exchange";
    case spatial::Span::kAwaitExchange:
      return "await_exchange";
    case spatial::Span::kSum:
      return "sum";
    case spatial::Span::kAwaitSum:
      break;
  }
  return "await_sum";
}

// Formats with three decimals: events cannot distinguish a thousandth of a millisecond.
std::string ThousandthsText(double ms) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", std::max(ms, 0.0));
  return text;
}

std::string IntervalsText(const std::vector<Interval>& intervals) {
  std::vector<std::string> texts;
  for (const Interval& interval : intervals) {
    texts.push_back(json::Line({Scalar(interval.begin), Scalar(interval.end)}));
  }
  return json::Line(texts);
}

// Formats the axes that are cut.
std::string AxesText(const HaloNeed& need, int depth) {
  constexpr const char* kLetters[] = {"d", "h", "w"};
  Fields axes;
  for (size_t axis = 0; axis < need.axes.size(); ++axis) {
    const AxisNeed& one = need.axes[axis];
    if (one.owned.size() < 2 || one.owned.size() > kMostParts) continue;
    axes.emplace_back(kLetters[axis], "{\"owned\": " + IntervalsText(one.owned) +
                                          ", \"needed\": " + IntervalsText(one.needed) + "}");
  }
  return json::Object(axes, depth);
}

// Formats the average times of a timed call; null: none was timed.
std::string TimesText(const spatial::KernelTimes& times, int depth) {
  if (times.calls == 0) return "null";
  const auto mean = [&](double ms) {
    return ThousandthsText(ms / static_cast<double>(times.calls));
  };
  return json::Object({{"calls", Scalar(times.calls)},
                       {"call_ms", mean(times.call_ms)},
                       {"own_ms", mean(times.own_ms)},
                       {"exchange_ms", mean(times.exchange_ms)},
                       {"exposed_ms", mean(times.exposed_ms)},
                       {"hidden_ms", mean(std::max(times.exchange_ms - times.exposed_ms, 0.0))},
                       {"sum_ms", mean(times.sum_ms)},
                       {"exposed_sum_ms", mean(times.exposed_sum_ms)}},
                      depth);
}

// Bytes are sums over all calls.
std::string SplitKernelText(const spatial::KernelFigures& kernel, int depth) {
  const spatial::KernelFacts& facts = kernel.facts;
  const uint64_t exchanges = kernel.calls - kernel.paired_calls;
  Fields fields = {{"kind", Scalar(facts.kind)},
                   {"op", Scalar(OperationName(facts.problem.operation))},
                   {"problem", json::Problem(facts.problem, depth + 1)},
                   {"common", Scalar(facts.common)},
                   {"verdict", Scalar(VerdictName(facts.verdict))},
                   {"reason", Scalar(facts.refusal)},
                   {"calls", Scalar(kernel.calls)},
                   {"paired_calls", Scalar(kernel.paired_calls)},
                   {"sent_bytes", Scalar(facts.sent_bytes * exchanges)},
                   {"received_bytes", Scalar(facts.received_bytes * exchanges)},
                   {"least_sent_bytes", Scalar(facts.least_sent_bytes * exchanges)},
                   {"least_received_bytes", Scalar(facts.least_received_bytes * exchanges)},
                   {"summed_bytes", Scalar(facts.summed_bytes * kernel.calls)},
                   {"slices", Scalar(facts.slices)},
                   {"axes", AxesText(facts.need, depth + 1)},
                   {"times", TimesText(kernel.times, depth + 1)}};
  return json::Object(fields, depth);
}

std::string StepTimesText(const spatial::StepTimes& step, int depth) {
  std::vector<std::string> calls;
  size_t begin = 0;
  for (const spatial::StepTimes::Call& call : step.calls) {
    std::vector<std::string> spans;
    for (; begin < call.end; ++begin) {
      const spatial::TimedSpan& span = step.spans[begin];
      spans.push_back(json::Line({Scalar(SpanName(span.span)), ThousandthsText(span.begin_ms),
                                  ThousandthsText(span.length_ms)}));
    }
    calls.push_back("{\"kernel\": " + Scalar(call.kernel) + ", \"spans\": " + json::Line(spans) +
                    "}");
  }
  return json::Object({{"number", Scalar(step.number)}, {"calls", json::Array(calls, depth + 1)}},
                      depth);
}

std::string TrackText(const RankRecord& track, const std::string& grid, int depth) {
  const auto nullable = [](const std::string& text) {
    return text.empty() ? std::string("null") : Scalar(text);
  };
  Fields fields = {{"rank", Scalar(track.rank)}};
  if (const Result<SpatialGrid> parsed = SpatialGrid::Parse(grid); parsed.ok()) {
    const GridCell cell = parsed->CellOf(track.rank);
    fields.emplace_back("cell", "{\"n\": " + Scalar(cell.n) + ", \"d\": " + Scalar(cell.d) +
                                    ", \"h\": " + Scalar(cell.h) + ", \"w\": " + Scalar(cell.w) +
                                    "}");
  }
  std::vector<std::string> kernels;
  for (const spatial::KernelFigures& kernel : track.figures.kernels) {
    kernels.push_back(SplitKernelText(kernel, depth + 2));
  }
  fields.emplace_back("transport", nullable(track.transport));
  fields.emplace_back("library", nullable(track.library));
  fields.emplace_back("calls", Scalar(track.calls));
  fields.emplace_back("owned_workspace_bytes", Scalar(track.owned_bytes));
  fields.emplace_back("unlisted_calls", Scalar(track.figures.unlisted_calls));
  fields.emplace_back("kernels", json::Array(kernels, depth + 1));
  fields.emplace_back("step", track.figures.step.number == 0
                                  ? "null"
                                  : StepTimesText(track.figures.step, depth + 1));
  return json::Object(fields, depth);
}

}  // namespace

std::string SpatialText(const SpatialRecord& record) {
  std::vector<std::string> tracks, refused;
  for (const RankRecord& track : record.tracks) tracks.push_back(TrackText(track, record.grid, 3));
  for (const auto& [what, count] : record.refused) {
    refused.push_back(json::Object({{"what", Scalar(what)}, {"count", Scalar(count)}}, 3));
  }
  return json::Object({{"grid", Scalar(record.grid)},
                       {"rank", Scalar(record.rank)},
                       {"ranks", Scalar(record.ranks)},
                       {"calls", Scalar(record.calls)},
                       {"exchanged_bytes", Scalar(record.exchanged_bytes)},
                       {"owned_workspace_bytes", Scalar(record.owned_bytes)},
                       {"tracks", json::Array(tracks, 2)},
                       {"refused", json::Array(refused, 2)}},
                      1);
}

}  // namespace ucudnn::interposer
