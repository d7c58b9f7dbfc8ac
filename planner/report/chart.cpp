#include "planner/report/chart.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/byte_size.h"
#include "planner/report/figure.h"

namespace ucudnn::planner {
namespace {

double LengthOf(const Bar& bar) {
  double length = 0;
  for (const Segment& segment : bar.segments) length += segment.length;
  return length;
}

// `left` is the x at which the bars and their axis begin, and `width` the width of the axis, both
// in px. The axis must show at least `most`: the length of the longest bar or the limit, whichever
// is larger.
struct Extent {
  double left = 0;
  double width = 0;
  double most = 0;
};

Extent ExtentOf(const BarChart& chart) {
  double label = 0;
  double end = 0;
  Extent extent;
  for (const Bar& bar : chart.bars) {
    label = std::max(label, TextWidth(CutLabel(bar.label)));
    end = std::max(end, TextWidth(bar.end));
    extent.most = std::max(extent.most, LengthOf(bar));
  }
  if (chart.limit) extent.most = std::max(extent.most, *chart.limit);
  extent.left = label + 12;
  extent.width = std::max(200.0, kFigureWidth - extent.left - end - 14);
  return extent;
}

void AddSegments(const Bar& bar, double left, double y, double per_unit, Element& svg) {
  double x = left;
  for (const Segment& segment : bar.segments) {
    const double width = segment.length * per_unit;
    Element group("g");
    group.Add(Element("title", segment.tip));
    group.Add(RectangleOf(x, y, width, kBarHeight, "box " + ColourClass(segment.colour)));
    if (!segment.label.empty() && TextWidth(segment.label) + 4 <= width) {
      group.Add(TextAt(x + width / 2, y + 13, segment.label, "middle"));
    }
    svg.Add(std::move(group));
    x += width;
  }
  svg.Add(TextAt(x + 6, y + 13, bar.end, "value"));
}

}  // namespace

std::string Bytes(double bytes) {
  const double most = std::clamp(bytes, 0.0, 9e18);
  return FormatByteSize(static_cast<size_t>(std::llround(most)));
}

Element Draw(const BarChart& chart) {
  const Extent extent = ExtentOf(chart);
  const AxisScale scale = ScaleTo(extent.most, chart.unit);
  const double per_unit = extent.width / scale.most;
  Element marks("g");
  const double top = AddLegend(chart.legend, extent.left, kFigureWidth, marks);
  const double bottom = top + kBarPitch * static_cast<double>(chart.bars.size());
  for (int tick = 0; tick <= Ticks(scale); ++tick) {
    const double x = extent.left + tick * scale.step * scale.unit * per_unit;
    marks.Add(LineOf(x, top, x, bottom + 4, "axis"));
    const std::string text =
        TickText(scale, tick) + (tick == 0 ? std::string(" ") + scale.name : "");
    marks.Add(TextAt(x, bottom + 17, text, tick == 0 ? "faint" : "faint middle"));
  }
  double y = top + 2;
  for (const Bar& bar : chart.bars) {
    marks.Add(TextAt(extent.left - 8, y + 13, CutLabel(bar.label), "end"));
    AddSegments(bar, extent.left, y, per_unit, marks);
    y += kBarPitch;
  }
  double height = bottom + 24;
  if (chart.limit) {
    const double x = extent.left + *chart.limit * per_unit;
    marks.Add(LineOf(x, top - 2, x, bottom + 5, "limit"));
    marks.Add(TextAt(x, bottom + 34, chart.limit_label,
                     x > kFigureWidth * 0.7 ? "mark end" : "mark middle"));
    height += 18;
  }
  Element svg = Canvas(chart.id, chart.title, kFigureWidth, height);
  svg.Add(std::move(marks));
  return Figure(chart.id, "bars", chart.title, std::move(svg));
}

Element Draw(const PointChart& chart) {
  constexpr double kPlotWidth = 400;
  constexpr double kPlotHeight = 180;
  constexpr double kLeft = 64;
  constexpr double kTop = 14;
  constexpr double kPlotRight = 40;
  std::vector<Point> all = chart.points;
  if (chart.apart) all.push_back(*chart.apart);
  double most_x = chart.limit_x.value_or(0);
  double most_y = 0;
  for (const Point& point : all) {
    most_x = std::max(most_x, point.x);
    most_y = std::max(most_y, point.y);
  }
  const AxisScale x_scale = ScaleTo(most_x, Unit::kBytes);
  const AxisScale y_scale = ScaleTo(most_y, Unit::kMilliseconds);
  const auto x_of = [&](double x) { return kLeft + x / x_scale.most * kPlotWidth; };
  const auto y_of = [&](double y) { return kTop + (1 - y / y_scale.most) * kPlotHeight; };
  const double bottom = kTop + kPlotHeight;
  Element svg = Canvas(chart.id, chart.title, kLeft + kPlotWidth + kPlotRight, bottom + 40);
  for (int tick = 0; tick <= Ticks(x_scale); ++tick) {
    const double x = x_of(tick * x_scale.step * x_scale.unit);
    svg.Add(LineOf(x, kTop, x, bottom, "axis"));
    svg.Add(TextAt(x, bottom + 15, TickText(x_scale, tick), "faint middle"));
  }
  for (int tick = 0; tick <= Ticks(y_scale); ++tick) {
    const double y = y_of(tick * y_scale.step);
    svg.Add(LineOf(kLeft, y, kLeft + kPlotWidth, y, "axis"));
    svg.Add(TextAt(kLeft - 6, y + 4, TickText(y_scale, tick), "faint end"));
  }
  svg.Add(TextAt(kLeft + kPlotWidth / 2, bottom + 32, std::string("workspace, ") + x_scale.name,
                 "faint middle"));
  svg.Add(TextAt(4, kTop - 2, "ms", "faint"));
  if (chart.limit_x) {
    svg.Add(LineOf(x_of(*chart.limit_x), kTop, x_of(*chart.limit_x), bottom, "limit"));
  }
  std::string path;
  for (size_t at = 0; at < chart.points.size(); ++at) {
    const Point& point = chart.points[at];
    path += (at == 0 ? "M" : "H") + Coordinate(x_of(point.x));
    path += (at == 0 ? " " : "V") + Coordinate(y_of(point.y));
  }
  if (!path.empty()) {
    path += "H" + Coordinate(kLeft + kPlotWidth);
    svg.Add(Element("path").Set("d", path).Set("class", "step"));
  }
  for (const Point& point : all) {
    Element group("g");
    group.Add(Element("title", point.tip));
    const auto circle = [&](double radius, const char* classes) {
      return Element("circle")
          .Set("cx", x_of(point.x))
          .Set("cy", y_of(point.y))
          .Set("r", radius)
          .Set("class", classes);
    };
    group.Add(circle(4, "box k0"));
    if (point.chosen) group.Add(circle(8, "chosen"));
    svg.Add(std::move(group));
  }
  return Figure(chart.id, "points", chart.title, std::move(svg));
}

}  // namespace ucudnn::planner
