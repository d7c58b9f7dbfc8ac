// The levels of a multigrid hierarchy over one axis of layers, as an SVG figure. Pure function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/report/markup.h"

namespace ucudnn::planner {

struct DrawnLevel {
  int64_t layers = 1;      // of this level; its states are numbered 0 to `layers`
  int64_t span = 1;        // layers of the network that one stands for
  int64_t coarsening = 1;  // every so many states are the next level's; 1 on the coarsest
  std::string label;       // written before it
  std::string note;        // and behind it
};

// A tick for each state, tall for those that the next level has; where they are too close to be
// told apart a band. REQUIRES: there is a level, and no level reaches beyond the first.
Element DrawLevels(const char* id, const std::string& title, const std::vector<DrawnLevel>& levels);

}  // namespace ucudnn::planner
