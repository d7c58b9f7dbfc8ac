// Bars and points as SVG figures with titles, legends and axes. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/report/figure.h"
#include "planner/report/markup.h"

namespace ucudnn::planner {

// One part of a bar. Numbers are finite and not negative.
struct Segment {
  double length = 0;
  int colour = 0;     // a colour of the legend, or any that differs from the neighbours'
  std::string label;  // written on the segment if there is room
  std::string tip;    // shown at the pointer, and read out
};

struct Bar {
  std::string label;
  std::vector<Segment> segments;  // one behind the other
  std::string end;                // written behind the last segment
};

struct BarChart {
  const char* id = "";
  std::string title;
  Unit unit = Unit::kMilliseconds;
  std::vector<Bar> bars;
  std::vector<std::string> legend;  // the meanings of colours 0, 1, ...
  std::optional<double> limit;      // a line across all bars
  std::string limit_label;
};

Element Draw(const BarChart& chart);

struct Point {
  double x = 0;
  double y = 0;
  bool chosen = false;
  std::string tip;
};

// Shows time (ms) over workspace (bytes). The points are in ascending order of workspace and joined
// by steps: from each point on, its time is the least.
struct PointChart {
  const char* id = "";
  std::string title;
  std::vector<Point> points;
  std::optional<Point> apart;     // a point that the steps do not join
  std::optional<double> limit_x;  // a vertical line
};

Element Draw(const PointChart& chart);

// Shows what runs when along a time axis: rows of boxes that may overlap.
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
  double width = kFigureWidth;  // wider charts scroll
};

Element Draw(const TimelineChart& chart);

// Formats "205.8 MiB", also of a number that is not whole.
std::string Bytes(double bytes);

}  // namespace ucudnn::planner
