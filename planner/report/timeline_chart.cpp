#include <algorithm>
#include <utility>

#include "planner/report/chart.h"
#include "planner/report/figure.h"

namespace ucudnn::planner {
namespace {

constexpr double kLaneHeight = 16;
constexpr double kLanePitch = 18;
constexpr double kTrackGap = 8;

double EndOf(const TimelineChart& chart) {
  double end = 0;
  for (const TimelineTrack& track : chart.tracks) {
    for (const TimelineLane& lane : track.lanes) {
      for (const TimelineSpan& span : lane.spans) {
        end = std::max(end, span.begin_ms + span.length_ms);
      }
    }
  }
  return end;
}

// Widths in px of the labels of tracks and of lanes.
struct LabelWidths {
  double track = 0;
  double lane = 0;
  double left() const { return track + lane + 22; }
};

LabelWidths WidthsOf(const TimelineChart& chart) {
  LabelWidths widths;
  for (const TimelineTrack& track : chart.tracks) {
    widths.track = std::max(widths.track, TextWidth(CutLabel(track.label)));
    for (const TimelineLane& lane : track.lanes) {
      widths.lane = std::max(widths.lane, TextWidth(CutLabel(lane.label)));
    }
  }
  return widths;
}

double HeightOf(const TimelineTrack& track) {
  return kLanePitch * static_cast<double>(track.lanes.size()) + kTrackGap;
}

void AddLane(const TimelineLane& lane, double left, double y, double per_ms, Element& svg) {
  for (const TimelineSpan& span : lane.spans) {
    const double x = left + span.begin_ms * per_ms;
    // A span that is too short to be seen is drawn 0.5 px wide.
    const double width = std::max(span.length_ms * per_ms, 0.5);
    Element group("g");
    group.Add(Element("title", span.tip));
    group.Add(RectangleOf(x, y, width, kLaneHeight, "box " + ColourClass(span.colour)));
    if (!span.label.empty() && TextWidth(span.label) + 4 <= width) {
      group.Add(TextAt(x + width / 2, y + 12, span.label, "middle"));
    }
    svg.Add(std::move(group));
  }
}

}  // namespace

Element Draw(const TimelineChart& chart) {
  const LabelWidths widths = WidthsOf(chart);
  const double left = widths.left();
  const double room = std::max(200.0, chart.width - left - 24);
  const double end = EndOf(chart);
  const AxisScale scale = ScaleTo(end, Unit::kMilliseconds);
  const double per_ms = room / scale.most;
  Element marks("g");
  const double top = AddLegend(chart.legend, left, std::min(chart.width, kFigureWidth), marks);
  double bottom = top;
  for (const TimelineTrack& track : chart.tracks) bottom += HeightOf(track);
  for (int tick = 0; tick <= Ticks(scale); ++tick) {
    const double x = left + tick * scale.step * per_ms;
    marks.Add(LineOf(x, top, x, bottom + 4, "axis"));
    marks.Add(TextAt(x, bottom + 17, TickText(scale, tick) + (tick == 0 ? " ms" : ""),
                     tick == 0 ? "faint" : "faint middle"));
  }
  double y = top + 2;
  for (const TimelineTrack& track : chart.tracks) {
    marks.Add(TextAt(0, y + 12, CutLabel(track.label)));
    double lane_y = y;
    for (const TimelineLane& lane : track.lanes) {
      marks.Add(TextAt(left - 8, lane_y + 12, CutLabel(lane.label), "faint end"));
      AddLane(lane, left, lane_y, per_ms, marks);
      lane_y += kLanePitch;
    }
    y += HeightOf(track);
  }
  Element svg = Canvas(chart.id, chart.title, chart.width, bottom + 24);
  if (chart.width > kFigureWidth) svg.Set("class", "natural");
  svg.Add(std::move(marks));
  return Figure(chart.id, "bars", chart.title, std::move(svg));
}

}  // namespace ucudnn::planner
