// Draws curves over whole numbers such as cycles, epochs or devices, as an SVG figure with a legend
// and axes, which may be logarithmic. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/report/markup.h"

namespace ucudnn::planner {

struct LinePoint {
  int x = 0;     // 0 or more
  double y = 0;  // finite, 0 or more; 0 is left out on a logarithmic axis
  std::string tip;
};

struct Line {
  std::string name;
  std::vector<LinePoint> points;  // in ascending order of x
};

struct LineChart {
  const char* id = "";
  std::string title;
  std::string x_label;
  std::string y_label;
  bool is_logarithmic = false;    // the vertical axis is logarithmic
  bool is_logarithmic_x = false;  // the horizontal axis is logarithmic; a point at 0 is left out
  double most_y = 0;              // for a linear axis: least value at its end
  std::vector<Line> lines;        // in the order of the legend
  std::optional<double> limit_y;  // a horizontal line
  std::string limit_label;
};

Element Draw(const LineChart& chart);

}  // namespace ucudnn::planner
