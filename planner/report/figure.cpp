#include "planner/report/figure.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace ucudnn::planner {
namespace {

// Widths in px of most characters of 12 px text, and of capitals.
constexpr double kCharacter = 6.6;
constexpr double kCapital = 8.4;
constexpr size_t kLongestLabel = 44;

}  // namespace

double TextWidth(const std::string& text) {
  double width = 0;
  for (const char c : text) width += (c >= 'A' && c <= 'Z') || c == '_' ? kCapital : kCharacter;
  return width;
}

std::string CutLabel(const std::string& text) {
  return text.size() <= kLongestLabel ? text : text.substr(0, kLongestLabel - 3) + "...";
}

Element TextAt(double x, double y, const std::string& text, const char* classes) {
  Element element("text", text);
  element.Set("x", x).Set("y", y);
  if (*classes != '\0') element.Set("class", classes);
  return element;
}

Element LineOf(double x1, double y1, double x2, double y2, const char* classes) {
  return Element("line").Set("x1", x1).Set("y1", y1).Set("x2", x2).Set("y2", y2).Set("class",
                                                                                     classes);
}

Element RectangleOf(double x, double y, double width, double height, const std::string& classes) {
  return Element("rect")
      .Set("x", x)
      .Set("y", y)
      .Set("width", width)
      .Set("height", height)
      .Set("class", classes);
}

AxisScale ScaleTo(double most, Unit unit) {
  AxisScale scale;
  if (unit == Unit::kBytes) {
    constexpr const char* kNames[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t at = 0;
    while (at < 4 && most >= scale.unit * 1024) {
      scale.unit *= 1024;
      ++at;
    }
    scale.name = kNames[at];
  }
  const double units = most > 0 ? most / scale.unit : 1;
  scale.step = std::pow(10, std::floor(std::log10(units)));
  for (const double smaller : {10.0, 5.0, 2.0}) {
    if (units * smaller / scale.step <= 6) {
      scale.step /= smaller;
      break;
    }
  }
  while (units / scale.step > 6) scale.step *= 2;
  scale.most = std::max(units, scale.step) * scale.unit;
  return scale;
}

std::string TickText(const AxisScale& scale, int tick) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", tick * scale.step);
  return text;
}

int Ticks(const AxisScale& scale) {
  return static_cast<int>(std::floor(scale.most / scale.unit / scale.step + 1e-9));
}

Element Canvas(const char* id, const std::string& title, double width, double height) {
  const std::string name = std::string(id) + "-title";
  Element svg("svg");
  svg.Set("viewBox", "0 0 " + Coordinate(width) + " " + Coordinate(height));
  svg.Set("width", width).Set("height", height).Set("role", "img").Set("aria-labelledby", name);
  svg.Add(Element("title", title).Set("id", name));
  return svg;
}

Element Figure(const char* id, const char* classes, const std::string& title, Element svg) {
  Element figure("figure");
  figure.Set("id", id).Set("class", classes);
  figure.Add(Element("figcaption", title));
  figure.Add(Element("div").Set("class", "scroll").Add(std::move(svg)));
  return figure;
}

double AddLegend(const std::vector<std::string>& names, double left, double width, Element& svg) {
  if (names.empty()) return 4;
  double x = left;
  double y = 4;
  for (size_t at = 0; at < names.size(); ++at) {
    const std::string name = CutLabel(names[at]);
    const double wide = 18 + TextWidth(name) + 16;
    if (x + wide > width && x > left) {
      x = left;
      y += 20;
    }
    svg.Add(RectangleOf(x, y, 12, 12, "box " + ColourClass(static_cast<int>(at))));
    svg.Add(TextAt(x + 18, y + 10, name));
    x += wide;
  }
  return y + 24;
}

std::string ColourClass(int number) {
  const std::string name = "k" + std::to_string(number % 10);
  return number < 10 ? name : name + " again";
}

}  // namespace ucudnn::planner
