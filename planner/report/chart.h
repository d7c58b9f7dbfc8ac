// Bars and points as SVG figures with titles, legends and axes. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/report/figure.h"
#include "planner/report/markup.h"

namespace ucudnn::planner {

// Numbers are finite and not negative.
struct Segment {
  double length = 0;
  int colour = 0;     // of the legend, or any that tells neighbours apart
  std::string label;  // written on it where there is room
  std::string tip;    // shown when pointed at, and read out
};

struct Bar {
  std::string label;
  std::vector<Segment> segments;  // one behind the other
  std::string end;                // written behind the last
};

struct BarChart {
  const char* id = "";
  std::string title;
  Unit unit = Unit::kMilliseconds;
  std::vector<Bar> bars;
  std::vector<std::string> legend;  // what colours 0, 1, ... mean
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

// Time (ms) over workspace (bytes), points by rising workspace, joined by steps: from each point on
// its time is the least.
struct PointChart {
  const char* id = "";
  std::string title;
  std::vector<Point> points;
  std::optional<Point> apart;     // beside the steps
  std::optional<double> limit_x;  // a line
};

Element Draw(const PointChart& chart);

// A time axis with what runs when, as rows of boxes that may lie over each other.
struct TimelineSpan {
  double begin_ms = 0;
  double length_ms = 0;
  int colour = 0;
  std::string label;
  std::string tip;
};

struct TimelineLane {
  std::string label;
  std::vector<TimelineSpan> spans;  // later ones over earlier ones
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
  double width = kFigureWidth;  // wider ones scroll
};

Element Draw(const TimelineChart& chart);

// "205.8 MiB" of a number that may be no whole one.
std::string Bytes(double bytes);

}  // namespace ucudnn::planner
