// Bars, points and timelines as SVG figures with titles and axes; bars and timelines also have
// legends. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/report/figure.h"
#include "planner/report/markup.h"

namespace ucudnn::planner {

// One part of a bar. Lengths are finite and not negative.
struct Segment {
  double length = 0;
  int colour = 0;     // a colour of the legend, or any other colour that the neighbours do not have
  std::string label;  // text on the segment, drawn if there is room
  std::string tip;    // text that browsers show at the pointer and read out
};

struct Bar {
  std::string label;
  std::vector<Segment> segments;  // from left to right
  std::string end;                // text after the last segment
};

struct BarChart {
  const char* id = "";
  std::string title;
  Unit unit = Unit::kMilliseconds;
  std::vector<Bar> bars;
  std::vector<std::string> legend;  // the meanings of colours 0, 1, ...
  std::optional<double> limit;      // position of a line across all bars
  std::string limit_label;
};

Element Draw(const BarChart& chart);

struct Point {
  double x = 0;
  double y = 0;
  bool chosen = false;
  std::string tip;
};

// Shows time (ms) over workspace (bytes). The points are in ascending order of workspace. A line of
// steps joins them: it keeps the time of a point up to the workspace of the next point.
struct PointChart {
  const char* id = "";
  std::string title;
  std::vector<Point> points;
  std::optional<Point> apart;     // a point that the steps do not join
  std::optional<double> limit_x;  // position of a vertical line
};

Element Draw(const PointChart& chart);

// A box of a TimelineChart, which shows what runs at which times. Boxes of a lane may overlap.
struct TimelineSpan {
  double begin_ms = 0;
  double length_ms = 0;
  int colour = 0;
  std::string label;
  std::string tip;
};

struct TimelineLane {
  std::string label;
  std::vector<TimelineSpan> spans;  // later spans are drawn over earlier ones
};

struct TimelineTrack {
  std::string label;
  std::vector<TimelineLane> lanes;
};

struct TimelineChart {
  const char* id = "";
  std::string title;
  std::vector<std::string> legend;
  std::vector<TimelineTrack> tracks;
  double width = kFigureWidth;  // in px; a chart wider than kFigureWidth scrolls
};

Element Draw(const TimelineChart& chart);

// Formats as "205.8 MiB". `bytes` need not be a whole number.
std::string Bytes(double bytes);

}  // namespace ucudnn::planner
