#include "planner/report/line_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "planner/report/figure.h"

namespace ucudnn::planner {
namespace {

constexpr double kPlotLeft = 64;
constexpr double kPlotRight = 24;
constexpr double kPlotTall = 260;
constexpr int kLineColours = 10;
constexpr int kMostTicks = 12;
constexpr double kLeastTickGap = 36;

std::string LineClass(size_t number) {
  return "l" + std::to_string(number % static_cast<size_t>(kLineColours));
}

// The vertical axis: positions of numbers, and ticks.
class Vertical {
 public:
  virtual ~Vertical() = default;
  virtual double Share(double y) const = 0;  // 0 at the bottom, 1 at the top
  struct Tick {
    double y;
    std::string text;
  };
  virtual std::vector<Tick> Ticks() const = 0;
};

class LinearAxis final : public Vertical {
 public:
  explicit LinearAxis(double most) : scale_(ScaleTo(most, Unit::kMilliseconds)) {}
  double Share(double y) const override { return y / scale_.most; }
  std::vector<Tick> Ticks() const override {
    std::vector<Tick> ticks;
    for (int tick = 0; tick <= planner::Ticks(scale_); ++tick) {
      ticks.push_back({tick * scale_.step, TickText(scale_, tick)});
    }
    return ticks;
  }

 private:
  const AxisScale scale_;
};

// A logarithmic axis, which spans whole decades.
class LogarithmicAxis final : public Vertical {
 public:
  LogarithmicAxis(double least, double most)
      : first_(static_cast<int>(std::floor(std::log10(least)))),
        last_(std::max(static_cast<int>(std::ceil(std::log10(most))), first_ + 1)) {}
  double Share(double y) const override { return (std::log10(y) - first_) / (last_ - first_); }
  std::vector<Tick> Ticks() const override {
    const int step = (last_ - first_ + kMostTicks - 1) / kMostTicks;
    std::vector<Tick> ticks;
    for (int decade = first_; decade <= last_; decade += step) {
      ticks.push_back({std::pow(10.0, decade), "1e" + std::to_string(decade)});
    }
    return ticks;
  }

 private:
  const int first_;
  const int last_;
};

class LineDrawing {
 public:
  explicit LineDrawing(const LineChart& chart) : chart_(chart) {
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    const auto look = [&](double y) {
      if (y > 0) least = std::min(least, y);
      most = std::max(most, y);
    };
    least_x_ = std::numeric_limits<int>::max();
    for (const Line& line : chart.lines) {
      for (const LinePoint& point : line.points) {
        if (chart.is_logarithmic_x && point.x == 0) continue;
        look(point.y);
        xs_.insert(point.x);
        least_x_ = std::min(least_x_, point.x);
        most_x_ = std::max(most_x_, point.x);
      }
    }
    least_x_ = std::max(std::min(least_x_, most_x_), chart.is_logarithmic_x ? 1 : 0);
    most_x_ = std::max(most_x_, least_x_ + 1);
    if (chart.limit_y) look(*chart.limit_y);
    if (chart.is_logarithmic) {
      vertical_ = most > 0 ? std::make_unique<LogarithmicAxis>(least, most)
                           : std::make_unique<LogarithmicAxis>(1, 10);
    } else {
      vertical_ = std::make_unique<LinearAxis>(std::max(most, chart.most_y));
    }
  }

  Element Finish() {
    top_ = AddNames();
    AddAxes();
    if (chart_.limit_y) AddLimit();
    for (size_t number = 0; number < chart_.lines.size(); ++number) AddLine(number);
    Element svg = Canvas(chart_.id, chart_.title, kFigureWidth, bottom() + 40);
    svg.Add(std::move(marks_));
    return Figure(chart_.id, "bars", chart_.title, std::move(svg));
  }

 private:
  double bottom() const { return top_ + kPlotTall; }
  double X(int x) const {
    const double share = chart_.is_logarithmic_x
                             ? std::log2(1.0 * x / least_x_) / std::log2(1.0 * most_x_ / least_x_)
                             : 1.0 * (x - least_x_) / (most_x_ - least_x_);
    return kPlotLeft + (kFigureWidth - kPlotLeft - kPlotRight) * share;
  }
  double Y(double y) const { return top_ + (1 - vertical_->Share(y)) * kPlotTall; }
  bool HasPlace(const LinePoint& point) const {
    return (!chart_.is_logarithmic || point.y > 0) && (!chart_.is_logarithmic_x || point.x > 0);
  }

  // Returns the x of each tick. On a logarithmic axis each tick is at the x of a point, and ticks
  // are more than kLeastTickGap apart.
  std::vector<int> TicksOfX() const {
    std::vector<int> ticks;
    if (chart_.is_logarithmic_x) {
      for (const int x : xs_) {
        if (ticks.empty() || X(x) - X(ticks.back()) > kLeastTickGap) ticks.push_back(x);
      }
      return ticks;
    }
    const AxisScale whole = ScaleTo(most_x_ - least_x_, Unit::kMilliseconds);
    const int step = std::max(1, static_cast<int>(std::ceil(whole.step / 2)));
    for (int x = least_x_; x <= most_x_; x += step) ticks.push_back(x);
    return ticks;
  }

  // Returns the number of lines after line `number`, but at most 3. The larger it is, the wider the
  // line is drawn, so that it shows under later lines through the same points.
  double Excess(size_t number) const {
    return static_cast<double>(std::min<size_t>(chart_.lines.size() - 1 - number, 3));
  }
  Element Stroke(size_t number, Element line) const {
    const std::string width = Coordinate(1.6 + 1.6 * Excess(number));
    line.Set("class", "line " + LineClass(number)).Set("stroke-width", width);
    return line;
  }

  // Returns a mark at (x, y) whose shape depends on the line, so that lines can be told apart
  // without colours.
  Element Sign(size_t number, double x, double y) const {
    const std::string colour = LineClass(number);
    const double size = 3.4 + 0.8 * Excess(number);
    const auto path = [&](const std::vector<std::pair<double, double>>& corners) {
      std::string d;
      for (const auto& [dx, dy] : corners) {
        d += (d.empty() ? "M" : "L") + Coordinate(x + size * dx) + " " + Coordinate(y + size * dy);
      }
      return Element("path").Set("d", d + "Z").Set("class", colour);
    };
    switch (number % 4) {
      case 0:
        return Element("circle").Set("cx", x).Set("cy", y).Set("r", size).Set("class", colour);
      case 1:
        return path({{-.9, -.9}, {.9, -.9}, {.9, .9}, {-.9, .9}});
      case 2:
        return path({{0, -1.3}, {1.3, 0}, {0, 1.3}, {-1.3, 0}});
      default:
        return path({{0, -1.2}, {1.2, 1}, {-1.2, 1}});
    }
  }

  // Adds the legend. Returns the y at which the plot begins.
  double AddNames() {
    constexpr double kSample = 30;
    double x = kPlotLeft;
    double y = 10;
    for (size_t number = 0; number < chart_.lines.size(); ++number) {
      const std::string name = CutLabel(chart_.lines[number].name);
      const double wide = kSample + 6 + TextWidth(name) + 16;
      if (x + wide > kFigureWidth && x > kPlotLeft) {
        x = kPlotLeft;
        y += 20;
      }
      marks_.Add(Stroke(
          number, Element("line").Set("x1", x).Set("y1", y).Set("x2", x + kSample).Set("y2", y)));
      marks_.Add(Sign(number, x + kSample / 2, y));
      marks_.Add(TextAt(x + kSample + 6, y + 4, name));
      x += wide;
    }
    return y + 36;
  }

  void AddAxes() {
    for (const Vertical::Tick& tick : vertical_->Ticks()) {
      marks_.Add(LineOf(kPlotLeft, Y(tick.y), kFigureWidth - kPlotRight, Y(tick.y), "axis"));
      marks_.Add(TextAt(kPlotLeft - 8, Y(tick.y) + 4, tick.text, "faint end"));
    }
    marks_.Add(TextAt(4, top_ - 14, chart_.y_label, "faint"));
    for (const int x : TicksOfX()) {
      marks_.Add(LineOf(X(x), bottom(), X(x), bottom() + 4, "axis"));
      marks_.Add(TextAt(X(x), bottom() + 17, std::to_string(x), "faint middle"));
    }
    marks_.Add(
        TextAt((X(least_x_) + X(most_x_)) / 2, bottom() + 34, chart_.x_label, "faint middle"));
  }

  void AddLimit() {
    const double y = Y(*chart_.limit_y);
    marks_.Add(LineOf(kPlotLeft, y, kFigureWidth - kPlotRight, y, "limit"));
    marks_.Add(TextAt(kPlotLeft + 8, y - 5, chart_.limit_label, "mark"));
  }

  void AddLine(size_t number) {
    std::string path;
    Element signs("g");
    for (const LinePoint& point : chart_.lines[number].points) {
      if (!HasPlace(point)) continue;
      path += (path.empty() ? "M" : "L") + Coordinate(X(point.x)) + " " + Coordinate(Y(point.y));
      signs.Add(
          Element("g").Add(Element("title", point.tip)).Add(Sign(number, X(point.x), Y(point.y))));
    }
    if (path.empty()) return;
    marks_.Add(Stroke(number, Element("path").Set("d", path)));
    marks_.Add(std::move(signs));
  }

  const LineChart& chart_;
  std::unique_ptr<Vertical> vertical_;
  Element marks_{"g"};
  std::set<int> xs_;  // x of all points
  int least_x_ = 0;
  int most_x_ = 0;
  double top_ = 0;
};

}  // namespace

Element Draw(const LineChart& chart) { return LineDrawing(chart).Finish(); }

}  // namespace ucudnn::planner
