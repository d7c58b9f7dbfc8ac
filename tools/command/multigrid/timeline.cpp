#include "command/multigrid/timeline.h"

#include <algorithm>
#include <cstdio>

#include "command/numbers.h"
#include "planner/report/chart.h"
#include "planner/report/page.h"

namespace ucudnn::command {
namespace {

using planner::Element;

constexpr size_t kMostTimelines = 4;
constexpr size_t kMostSpans = 6000;  // the most spans that one timeline shows
constexpr double kSpanWidth = 5;     // mean width in px of a span, in the lane with most spans
constexpr double kMostWidth = 6 * planner::kFigureWidth;

std::string RangeText(int64_t first, int64_t count) {
  return Grouped(first + 1) + (count == 1 ? "" : " to " + Grouped(first + count));
}

std::string TipOf(const ReportedSpan& span, const TimelineRow& row) {
  const ReportedStage& stage = row.stage;
  int64_t layers = 1;  // number of the network's layers that one step of the level replaces
  for (int64_t level = 0; level < span.level; ++level) {
    layers *= stage.coarsening[level];
  }
  std::string tip = std::string(row.lane) + " " + std::to_string(span.lane + 1) + ", level " +
                    std::to_string(span.level + 1) + (span.steps == 1 ? ": step " : ": steps ") +
                    RangeText(span.first, span.steps);
  if (layers > 1)
    tip += " (for layers " + RangeText(span.first * layers, span.steps * layers) + ")";
  return tip + NumberText(", %.3g ms", span.end_ms - span.begin_ms) +
         NumberText(" from %.4g ms on", span.begin_ms);
}

// Returns the spans to draw: all, or those that begin first if there are more than kMostSpans.
std::vector<ReportedSpan> DrawnSpans(const ReportedTimeline& timeline) {
  std::vector<ReportedSpan> spans = timeline.spans;
  if (spans.size() <= kMostSpans) return spans;
  std::stable_sort(spans.begin(), spans.end(),
                   [](const auto& a, const auto& b) { return a.begin_ms < b.begin_ms; });
  spans.resize(kMostSpans);
  return spans;
}

Element DrawTimeline(const TimelineRow& row, size_t number) {
  const ReportedTimeline& timeline = *row.stage.timeline;
  const std::string id = "timeline-" + std::to_string(number);
  planner::TimelineChart chart;
  chart.id = id.c_str();
  chart.title = row.name + ": cycle " + std::to_string(timeline.cycle) + " of " +
                std::to_string(row.stage.cycles) + (row.has_cpu_times ? ", CPU times" : "");
  for (size_t level = 0; level < row.stage.levels.size(); ++level) {
    chart.legend.push_back("level " + std::to_string(level + 1) + ": " +
                           Grouped(row.stage.levels[level]) + " layers");
  }
  planner::TimelineTrack track;
  for (int64_t lane = 0; lane < timeline.lanes; ++lane) {
    track.lanes.push_back({std::string(row.lane) + " " + std::to_string(lane + 1), {}});
  }
  size_t most = 0;
  for (const ReportedSpan& span : DrawnSpans(timeline)) {
    auto& spans = track.lanes[span.lane].spans;
    spans.push_back({span.begin_ms, span.end_ms - span.begin_ms, static_cast<int>(span.level), "",
                     TipOf(span, row)});
    most = std::max(most, spans.size());
  }
  chart.tracks.push_back(std::move(track));
  chart.width =
      std::clamp(kSpanWidth * static_cast<double>(most), planner::kFigureWidth, kMostWidth);
  return Draw(chart);
}

std::string ConcurrencyText(const TimelineRow& row) {
  const ReportedTimeline& timeline = *row.stage.timeline;
  std::string text = row.name + ": " + NumberText("%.2f of ", timeline.concurrency) +
                     std::to_string(timeline.lanes) + " " + row.lane +
                     (timeline.lanes == 1 ? " runs" : "s run") + " a layer on average" +
                     NumberText(", over %.3g ms.", timeline.ms);
  if (timeline.spans.size() > kMostSpans) {
    text += " The first " + Grouped(kMostSpans) + " of " +
            Grouped(static_cast<int64_t>(timeline.spans.size())) + " blocks are drawn.";
  }
  return text;
}

}  // namespace

Element TimelineSection(const std::vector<TimelineRow>& rows) {
  Element section = planner::Section("timeline", "Timeline of a cycle");
  section.Add(planner::Paragraph(
      "What each thread or stream runs when: a box is the layers of a block that follow each "
      "other, or the "
      "one layer that leads to the next block. Blocks of a level run at the same time, and levels "
      "one after the other. Where nothing is drawn, it waits for others, or adds and "
      "compares states."));
  size_t number = 0;
  for (const TimelineRow& row : rows) {
    if (number == kMostTimelines) break;
    section.Add(planner::Paragraph(ConcurrencyText(row)));
    section.Add(DrawTimeline(row, ++number));
  }
  return section;
}

}  // namespace ucudnn::command
