#include "command/report/spatial_report.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/text.h"
#include "convolution/json_kernel.h"

namespace ucudnn::command {
namespace {

constexpr int64_t kMostExtent = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostSplitKernels = 4096;
constexpr size_t kMostAxisParts = 64;  // limit for one axis; reports leave out longer ones

constexpr std::pair<const char*, StepSpan> kSpans[] = {
    {"call", StepSpan::kCall},         {"own", StepSpan::kOwn},
    {"exchange", StepSpan::kExchange}, {"await_exchange", StepSpan::kAwaitExchange},
    {"sum", StepSpan::kSum},           {"await_sum", StepSpan::kAwaitSum},
};

double RequiredTime(const JsonPlace& place) {
  const std::optional<double> ms = place.Time();
  if (!ms) place.Refuse("milliseconds");
  return ms.value_or(0);
}

std::vector<Interval> ReadIntervals(const JsonPlace& place) {
  std::vector<Interval> intervals;
  for (const JsonPlace& one : place.Items()) {
    if (!one.ok()) break;
    const std::vector<JsonPlace> ends = one.Items();
    if (ends.size() != 2) {
      one.Refuse("two positions");
      break;
    }
    intervals.push_back({ends[0].Integer(0, kMostExtent), ends[1].Integer(0, kMostExtent)});
  }
  return intervals;
}

std::vector<SplitAxis> ReadAxes(const JsonPlace& place, const SpatialGrid& grid) {
  std::vector<SplitAxis> axes;
  if (place.absent()) return axes;
  place.Object();
  constexpr const char* kNames[] = {"d", "h", "w"};
  for (size_t at = 0; at < std::size(kNames); ++at) {
    const JsonPlace one = place.Member(kNames[at]);
    if (one.absent() || !one.ok()) continue;
    one.Object();
    SplitAxis axis{kNames[at][0], ReadIntervals(one.Member("owned")),
                   ReadIntervals(one.Member("needed"))};
    const auto parts = static_cast<size_t>(grid.Parts()[at]);
    if (parts > kMostAxisParts) one.Refuse("an axis of at most 64 parts");
    if (axis.owned.size() != parts || axis.needed.size() != parts) {
      one.Refuse("an entry for each of " + std::to_string(parts) + " parts");
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

std::optional<SplitTimes> ReadSplitTimes(const JsonPlace& place) {
  if (place.absent()) return std::nullopt;
  place.Object();
  SplitTimes times;
  times.calls = place.Member("calls").Integer(1, kMostJsonBytes);
  times.call_ms = RequiredTime(place.Member("call_ms"));
  times.own_ms = RequiredTime(place.Member("own_ms"));
  times.exchange_ms = RequiredTime(place.Member("exchange_ms"));
  times.exposed_ms = RequiredTime(place.Member("exposed_ms"));
  times.hidden_ms = RequiredTime(place.Member("hidden_ms"));
  times.sum_ms = RequiredTime(place.Member("sum_ms"));
  times.exposed_sum_ms = RequiredTime(place.Member("exposed_sum_ms"));
  return times;
}

// A refused call's problem may be invalid: its output may be empty.
std::optional<ConvolutionProblem> SplitProblemOf(const JsonPlace& place) {
  Status fault;
  const JsonPlace apart(place.value(), "", fault);
  const ConvolutionProblem problem = ReadProblem(apart);
  return fault.ok() ? std::optional(problem) : std::nullopt;
}

SplitKernelEntry ReadSplitKernel(const JsonPlace& place, const SpatialGrid& grid) {
  SplitKernelEntry kernel;
  place.Object();
  if (!place.ok()) return kernel;
  kernel.kind = place.Member("kind").Text();
  kernel.op = place.Member("op").Text();
  kernel.problem = SplitProblemOf(place);
  kernel.common = place.Member("common").Text();
  kernel.verdict = place.Member("verdict").Text();
  kernel.reason = place.Member("reason").TextIfThere();
  kernel.calls = place.Member("calls").Integer(0, kMostJsonBytes);
  kernel.paired_calls = place.Member("paired_calls").IntegerIfThere(kMostJsonBytes).value_or(0);
  kernel.sent_bytes = place.Member("sent_bytes").Bytes();
  kernel.received_bytes = place.Member("received_bytes").Bytes();
  kernel.least_sent_bytes = place.Member("least_sent_bytes").Bytes();
  kernel.least_received_bytes = place.Member("least_received_bytes").Bytes();
  kernel.summed_bytes = place.Member("summed_bytes").BytesIfThere();
  kernel.slices = place.Member("slices").Integer(1, kMostExtent);
  kernel.axes = ReadAxes(place.Member("axes"), grid);
  kernel.times = ReadSplitTimes(place.Member("times"));
  return kernel;
}

StepSpanEntry ReadSpan(const JsonPlace& place) {
  StepSpanEntry entry;
  const std::vector<JsonPlace> parts = place.Items();
  if (parts.size() != 3) {
    place.Refuse("what, its beginning and its length");
    return entry;
  }
  const std::string name = parts[0].Text();
  const auto known = std::find_if(std::begin(kSpans), std::end(kSpans),
                                  [&](const auto& span) { return span.first == name; });
  if (known == std::end(kSpans)) {
    parts[0].Refuse("call, own, exchange, await_exchange, sum or await_sum");
    return entry;
  }
  entry.span = known->second;
  entry.begin_ms = RequiredTime(parts[1]);
  entry.length_ms = RequiredTime(parts[2]);
  return entry;
}

void ReadStep(const JsonPlace& place, RankEntry& rank) {
  if (place.absent()) return;
  place.Object();
  rank.step_number = place.Member("number").Integer(1, kMostJsonBytes);
  for (const JsonPlace& one : place.Member("calls").Items()) {
    if (!one.ok()) return;
    one.Object();
    StepCallEntry call;
    call.kernel = static_cast<size_t>(
        one.Member("kernel").Integer(0, static_cast<int64_t>(rank.kernels.size()) - 1));
    for (const JsonPlace& span : one.Member("spans").Items()) {
      if (!span.ok()) return;
      call.spans.push_back(ReadSpan(span));
    }
    rank.step.push_back(std::move(call));
  }
}

RankEntry ReadRank(const JsonPlace& place, const SpatialGrid& grid) {
  RankEntry rank;
  place.Object();
  rank.rank = static_cast<int>(place.Member("rank").Integer(0, grid.Ranks() - 1));
  rank.transport = place.Member("transport").TextIfThere();
  rank.library = place.Member("library").TextIfThere();
  rank.calls = place.Member("calls").Integer(0, kMostJsonBytes);
  rank.owned_bytes = place.Member("owned_workspace_bytes").BytesIfThere();
  const std::vector<JsonPlace> kernels = place.Member("kernels").Items();
  if (static_cast<int64_t>(kernels.size()) > kMostSplitKernels) {
    place.Member("kernels").Refuse("at most " + std::to_string(kMostSplitKernels));
  }
  for (const JsonPlace& kernel : kernels) {
    if (!kernel.ok()) return rank;
    rank.kernels.push_back(ReadSplitKernel(kernel, grid));
  }
  ReadStep(place.Member("step"), rank);
  return rank;
}

}  // namespace

StepTimes StepTimesOf(const RankEntry& rank) {
  StepTimes times;
  std::vector<double> exposed(rank.kernels.size());
  std::optional<double> begin;
  double end = 0;
  for (const StepCallEntry& call : rank.step) {
    for (const StepSpanEntry& span : call.spans) {
      begin = std::min(begin.value_or(span.begin_ms), span.begin_ms);
      end = std::max(end, span.begin_ms + span.length_ms);
      if (span.span == StepSpan::kExchange) times.exchange_ms += span.length_ms;
      if (span.span == StepSpan::kSum) times.sum_ms += span.length_ms;
      if (span.span == StepSpan::kAwaitSum) times.exposed_sum_ms += span.length_ms;
      if (span.span != StepSpan::kAwaitExchange) continue;
      times.exposed_exchange_ms += span.length_ms;
      exposed[call.kernel] += span.length_ms;
    }
  }
  times.step_ms = end - begin.value_or(0);
  const auto worst = std::max_element(exposed.begin(), exposed.end());
  if (worst != exposed.end() && *worst > 0) {
    times.worst = static_cast<size_t>(worst - exposed.begin());
  }
  return times;
}

std::optional<SplitJob> ReadSplitJob(const JsonPlace& spatial) {
  if (spatial.absent()) return std::nullopt;
  spatial.Object();
  if (!spatial.ok() || spatial.Member("tracks").absent()) return std::nullopt;
  SplitJob job;
  const JsonPlace place = spatial.Member("grid");
  const Result<SpatialGrid> grid = SpatialGrid::Parse(place.Text());
  if (!grid.ok()) {
    place.Refuse(kSpatialGridForm);
    return std::nullopt;
  }
  job.grid = *grid;
  for (const JsonPlace& track : spatial.Member("tracks").Items()) {
    if (!track.ok()) return std::nullopt;
    job.ranks.push_back(ReadRank(track, job.grid));
  }
  for (const JsonPlace& one : spatial.Member("refused").Items()) {
    if (!one.ok()) return std::nullopt;
    one.Object();
    job.refused.push_back(
        {one.Member("what").Text(), one.Member("count").Integer(0, kMostJsonBytes)});
  }
  return job;
}

Status JoinSplitJob(SplitJob more, SplitJob& job) {
  if (more.grid != job.grid) {
    return Status::Error("the grid is " + more.grid.Text() + ", and " + job.grid.Text() +
                         " in the reports before");
  }
  for (RankEntry& rank : more.ranks) {
    const auto same = std::find_if(job.ranks.begin(), job.ranks.end(),
                                   [&](const RankEntry& one) { return one.rank == rank.rank; });
    if (same != job.ranks.end()) {
      return Status::Error("rank " + std::to_string(rank.rank) + " is also in " +
                           Quoted(same->source));
    }
    job.ranks.push_back(std::move(rank));
  }
  for (RefusedEntry& one : more.refused) {
    const auto same =
        std::find_if(job.refused.begin(), job.refused.end(),
                     [&](const RefusedEntry& known) { return known.what == one.what; });
    if (same == job.refused.end()) {
      job.refused.push_back(std::move(one));
    } else {
      same->count += std::min(one.count, kMostJsonBytes - same->count);
    }
  }
  std::sort(job.ranks.begin(), job.ranks.end(),
            [](const RankEntry& a, const RankEntry& b) { return a.rank < b.rank; });
  return Status::Ok();
}

}  // namespace ucudnn::command
