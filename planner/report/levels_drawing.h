// Draws the levels of a multigrid hierarchy over one axis of layers, as an SVG figure. Pure
// function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/report/markup.h"

namespace ucudnn::planner {

struct DrawnLevel {
  int64_t layers = 1;  // number of layers of this level; its states are numbered 0 to `layers`
  int64_t span = 1;    // number of the network's layers that one layer of this level spans
  // Every `coarsening`-th state is a state of the next level; 1 on the coarsest level.
  int64_t coarsening = 1;
  std::string label;  // written before the level
  std::string note;   // written after the level
};

// Draws a tick for each state, and a tall one if the next level has that state too. If the ticks of
// a level would be too close to tell apart, draws a band instead; tall ticks are drawn over the
// band where they fit. REQUIRES: `levels` is not empty, and no level spans more layers of the
// network than the first one.
Element DrawLevels(const char* id, const std::string& title, const std::vector<DrawnLevel>& levels);

}  // namespace ucudnn::planner
