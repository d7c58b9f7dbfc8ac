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
  int64_t span = 1;    // layers of the network that one layer of this level stands for
  // Every `coarsening`-th state is a state of the next level; 1 on the coarsest.
  int64_t coarsening = 1;
  std::string label;  // written before the level
  std::string note;   // written behind the level
};

// Draws a tick for each state, which is tall if the next level has that state too. Draws a band
// instead if the ticks would be too close to tell apart. REQUIRES: there is a level, and no level
// reaches beyond the first.
Element DrawLevels(const char* id, const std::string& title, const std::vector<DrawnLevel>& levels);

}  // namespace ucudnn::planner
