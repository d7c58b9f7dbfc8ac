// Curves over whole numbers, as cycles, epochs or devices, as an SVG figure with a legend and axes,
// which may be logarithmic. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/report/markup.h"

namespace ucudnn::planner {

struct LinePoint {
  int x = 0;     // 0 or more
  double y = 0;  // finite, 0 or more; 0 has no place on a logarithmic axis and is left out
  std::string tip;
};

struct Line {
  std::string name;
  std::vector<LinePoint> points;  // by rising x
};

struct LineChart {
  const char* id = "";
  std::string title;
  std::string x_label;
  std::string y_label;
  bool is_logarithmic = false;    // the vertical axis
  bool is_logarithmic_x = false;  // the other; a point at 0 has no place there
  double most_y = 0;              // how far the axis goes at least; of a linear one
  std::vector<Line> lines;        // in the order of the legend
  std::optional<double> limit_y;  // a line across
  std::string limit_label;
};

Element Draw(const LineChart& chart);

}  // namespace ucudnn::planner
