// Draws one step of all ranks as a timeline.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "command/report/spatial_page.h"
#include "planner/report/chart.h"
#include "planner/report/figure.h"
#include "planner/report/page.h"

namespace ucudnn::command {
namespace {

using planner::Element;
using planner::Paragraph;
using planner::Section;

// Colours of the timeline.
enum StepColour { kOwnCall, kExchangeOfRows, kRestOfCall, kSumOverRanks, kWait };

// How a kind of span is shown.
struct SpanLook {
  StepColour colour;
  const char* words;
  bool is_exchange;  // whether the span is on the stream of exchanges
};

const SpanLook& LookOf(StepSpan span) {
  static constexpr SpanLook kLooks[] = {
      {kRestOfCall, "the whole call", false},      {kOwnCall, "the rank's own call", false},
      {kExchangeOfRows, "exchange of rows", true}, {kWait, "waits for the exchange", false},
      {kSumOverRanks, "sum over ranks", true},     {kWait, "waits for the sum", false}};
  return kLooks[static_cast<size_t>(span)];
}

// Returns the time at which the first exchange of call `at` of the step ends; unset if there is no
// such call or it has no exchange.
std::optional<double> EndOfExchange(const RankEntry& rank, size_t at) {
  if (at >= rank.step.calls.size()) return std::nullopt;
  for (const StepSpanEntry& span : rank.step.calls[at].spans) {
    if (span.span == StepSpan::kExchange) return span.begin_ms + span.length_ms;
  }
  return std::nullopt;
}

// Returns the time to add to each rank's times, because devices have no common clock. With it, the
// first exchange that all ranks make ends at the same time on all ranks.
std::vector<double> ShiftsOf(const std::vector<const RankEntry*>& ranks) {
  std::vector<double> shifts(ranks.size(), 0);
  for (size_t at = 0; at < ranks.front()->step.calls.size(); ++at) {
    std::vector<double> ends;
    for (const RankEntry* const rank : ranks) {
      if (const auto end = EndOfExchange(*rank, at)) ends.push_back(*end);
    }
    if (ends.size() != ranks.size()) continue;
    const double latest = *std::max_element(ends.begin(), ends.end());
    for (size_t rank = 0; rank < ranks.size(); ++rank) shifts[rank] = latest - ends[rank];
    return shifts;
  }
  return shifts;
}

// Returns, for each kernel of a rank, the number of the kernel in KernelsOf(job), counted from 1.
std::vector<size_t> NumbersOf(const SplitJob& job, size_t rank) {
  std::vector<size_t> numbers(job.ranks[rank].kernels.size());
  const std::vector<JobKernel> kernels = KernelsOf(job);
  for (size_t at = 0; at < kernels.size(); ++at) {
    for (const JobKernel::OfRank& one : kernels[at].ranks) {
      if (one.rank == rank) numbers[one.kernel] = at + 1;
    }
  }
  return numbers;
}

planner::TimelineTrack TrackOf(const SplitJob& job, size_t at, double shift_ms) {
  const RankEntry& rank = job.ranks[at];
  const std::vector<size_t> numbers = NumbersOf(job, at);
  planner::TimelineTrack track;
  track.label = "rank " + std::to_string(rank.rank);
  track.lanes = {{"calls", {}}, {"exchanges", {}}};
  for (const StepCallEntry& call : rank.step.calls) {
    const std::string number = std::to_string(numbers[call.kernel]);
    const std::string name =
        number + ": " + SplitKernelLabel(rank.kernels[call.kernel]) + ", " + track.label + ": ";
    for (const StepSpanEntry& span : call.spans) {
      const SpanLook& look = LookOf(span.span);
      const bool is_labelled = span.span == StepSpan::kOwn || look.is_exchange;
      track.lanes[look.is_exchange ? 1 : 0].spans.push_back(
          {span.begin_ms + shift_ms, span.length_ms, look.colour, is_labelled ? number : "",
           name + look.words + ", " + Milliseconds(span.length_ms)});
    }
  }
  return track;
}

}  // namespace

Element StepSection(const SplitJob& job) {
  Element section = Section("step", "One step");
  std::vector<const RankEntry*> timed;
  std::vector<size_t> places;
  size_t most_calls = 0;
  for (size_t at = 0; at < job.ranks.size(); ++at) {
    if (job.ranks[at].step.calls.empty()) continue;
    timed.push_back(&job.ranks[at]);
    places.push_back(at);
    most_calls = std::max(most_calls, job.ranks[at].step.calls.size());
  }
  if (timed.empty()) {
    return std::move(
        section.Add(Paragraph("No step was timed: that begins with the second one, and a step "
                              "begins with each call of the kernel that was called first.")));
  }
  const std::vector<double> shifts = ShiftsOf(timed);
  planner::TimelineChart chart;
  chart.id = "step-chart";
  chart.title = "Step " + std::to_string(timed.front()->step.number) +
                ": the split calls of each rank, with the numbers of their kernels";
  chart.legend = {"the rank's own call", "exchange of rows", "rest of the call: rows at cuts",
                  "sum over ranks", "exposed: waits for an exchange or a sum"};
  constexpr double kCallWidth = 26, kWidest = 4000;
  chart.width =
      std::clamp(static_cast<double>(most_calls) * kCallWidth, planner::kFigureWidth, kWidest);
  for (size_t at = 0; at < timed.size(); ++at) {
    chart.tracks.push_back(TrackOf(job, places[at], shifts[at]));
  }
  section.Add(Paragraph(
      "Times are the device's, from each rank's own beginning of the step. Devices have no clock "
      "in common: the first exchange that all ranks make is drawn to end at one time on all."));
  return std::move(section.Add(Draw(chart)));
}

}  // namespace ucudnn::command
