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
  double y = 0;  // finite, 0 or more; a point at 0 is not drawn on a logarithmic axis
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
  bool is_logarithmic = false;  // the vertical axis is logarithmic
  // The horizontal axis is logarithmic; a point at x = 0 is not drawn.
  bool is_logarithmic_x = false;
  double most_y = 0;              // on a linear axis: the axis ends at this value or above
  std::vector<Line> lines;        // in the order of the legend
  std::optional<double> limit_y;  // y of a horizontal line
  std::string limit_label;
};

Element Draw(const LineChart& chart);

}  // namespace ucudnn::planner
