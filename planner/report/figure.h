// The parts of figures: texts, lines and boxes in 12 px, a canvas, a legend, axes. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "planner/report/markup.h"

namespace ucudnn::planner {

inline constexpr double kFigureWidth = 960;
inline constexpr double kBarHeight = 18;
inline constexpr double kBarPitch = 24;

double TextWidth(const std::string& text);
// Cuts `text` to the length of a label. The bytes of a character that is cut in two are shown as
// one unknown character.
std::string CutLabel(const std::string& text);

Element TextAt(double x, double y, const std::string& text, const char* classes = "");
Element LineOf(double x1, double y1, double x2, double y2, const char* classes);
Element RectangleOf(double x, double y, double width, double height, const std::string& classes);

enum class Unit { kMilliseconds, kBytes };

struct AxisScale {
  double unit = 1;  // divides the numbers that ticks show
  const char* name = "ms";
  double step = 1;  // distance of ticks, in units
  double most = 1;  // end of the axis, in the quantity itself
};

// Chooses at most six steps of 1, 2 or 5 times a power of ten.
AxisScale ScaleTo(double most, Unit unit);
std::string TickText(const AxisScale& scale, int tick);
int Ticks(const AxisScale& scale);

Element Canvas(const char* id, const std::string& title, double width, double height);
Element Figure(const char* id, const char* classes, const std::string& title, Element svg);

// Adds names beside their colours, in lines of at most `width`; returns the position of what
// follows.
double AddLegend(const std::vector<std::string>& names, double left, double width, Element& svg);

// Returns the class that fills with colour `number`.
std::string ColourClass(int number);

}  // namespace ucudnn::planner
