#include "planner/report/levels_drawing.h"

#include <algorithm>
#include <utility>

#include "planner/report/figure.h"

namespace ucudnn::planner {
namespace {

constexpr double kRowHeight = 40;
constexpr double kTick = 5;  // half the height of a state's tick
// Half the height of the tick of a state that the next level has too.
constexpr double kTallTick = 10;
constexpr double kClosest = 3;  // in px; a level whose ticks would be closer is drawn as a band

// The position of a level's states.
struct Row {
  double left = 0;
  double pitch = 1;
  double y = 0;

  double X(int64_t state) const { return left + static_cast<double>(state) * pitch; }
};

// Adds a tick at each state that is a multiple of `every`.
void AddTicks(const DrawnLevel& level, int64_t every, const Row& row, Element& svg) {
  const bool is_tall = every > 1;
  const double half = is_tall ? kTallTick : kTick;
  for (int64_t state = 0; state <= level.layers; state += every) {
    const double x = row.X(state);
    svg.Add(LineOf(x, row.y - half, x, row.y + half, is_tall ? "edge tall" : "edge"));
  }
}

}  // namespace

Element DrawLevels(const char* id, const std::string& title,
                   const std::vector<DrawnLevel>& levels) {
  double label = 0;
  double note = 0;
  for (const DrawnLevel& level : levels) {
    label = std::max(label, TextWidth(level.label));
    note = std::max(note, TextWidth(level.note));
  }
  const double left = label + 16;
  const double width = std::max(200.0, kFigureWidth - left - note - 24);
  const double per_layer = width / static_cast<double>(levels.front().layers);
  Element marks("g");
  double y = 4 + kRowHeight / 2;
  for (const DrawnLevel& level : levels) {
    const Row row = {left, per_layer * static_cast<double>(level.span), y};
    const double end = row.X(level.layers);
    Element group("g");
    group.Add(Element("title", level.label + ": " + level.note));
    group.Add(LineOf(left, y, end, y, "edge"));
    if (row.pitch >= kClosest) {
      AddTicks(level, 1, row, group);
    } else {
      group.Add(RectangleOf(left, y - kTick, end - left, 2 * kTick, "box k8"));
    }
    if (level.coarsening > 1 && row.pitch * static_cast<double>(level.coarsening) >= kClosest) {
      AddTicks(level, level.coarsening, row, group);
    }
    group.Add(TextAt(left - 12, y + 4, level.label, "end"));
    group.Add(TextAt(left + width + 12, y + 4, level.note, "faint"));
    marks.Add(std::move(group));
    y += kRowHeight;
  }
  Element svg = Canvas(id, title, kFigureWidth, y - kRowHeight / 2 + 4);
  svg.Add(std::move(marks));
  return Figure(id, "bars", title, std::move(svg));
}

}  // namespace ucudnn::planner
