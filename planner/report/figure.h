// The parts of figures: texts of 12 px, lines, boxes, a canvas, a legend, and scales of axes. The
// functions keep no state; AddLegend adds to `svg`.
#pragma once

#include <string>
#include <vector>

#include "planner/report/markup.h"

namespace ucudnn::planner {

inline constexpr double kFigureWidth = 960;
inline constexpr double kBarHeight = 18;
inline constexpr double kBarPitch = 24;

double TextWidth(const std::string& text);
// Cuts `text` to the length of a label, between bytes. A character that is cut in two is shown as
// one unknown character.
std::string CutLabel(const std::string& text);

Element TextAt(double x, double y, const std::string& text, const char* classes = "");
Element LineOf(double x1, double y1, double x2, double y2, const char* classes);
Element RectangleOf(double x, double y, double width, double height, const std::string& classes);

enum class Unit { kMilliseconds, kBytes };

struct AxisScale {
  double unit = 1;  // a tick shows its number divided by this
  const char* name = "ms";
  double step = 1;  // distance of ticks, in units
  double most = 1;  // end of the axis, not divided by `unit`
};

// Chooses ticks so that at most six steps, each 1, 2 or 5 times a power of ten, cover `most`.
AxisScale ScaleTo(double most, Unit unit);
std::string TickText(const AxisScale& scale, int tick);
int Ticks(const AxisScale& scale);

Element Canvas(const char* id, const std::string& title, double width, double height);
Element Figure(const char* id, const char* classes, const std::string& title, Element svg);

// Adds samples of the colours with their names, in lines of at most `width` px. Returns the y below
// the legend.
double AddLegend(const std::vector<std::string>& names, double left, double width, Element& svg);

// Returns the CSS class that fills an element with colour `number`.
std::string ColourClass(int number);

}  // namespace ucudnn::planner
