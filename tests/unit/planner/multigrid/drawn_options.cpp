#include "unit/planner/multigrid/drawn_options.h"

#include <algorithm>
#include <sstream>

namespace ucudnn::multigrid {

int DrawNumber(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
}

DrawnSolve DrawSolve(std::mt19937_64& random, int most_steps) {
  DrawnSolve drawn;
  const int steps = DrawNumber(random, 4, most_steps);
  const int wanted = DrawNumber(random, 2, 4);
  int left = steps;
  auto& [coarsening, levels, coarse, h, storage, lanes] = drawn.setting;
  coarsening.clear();
  for (levels = 1; levels < wanted && left / 2 >= 2; ++levels) {
    const int factor = DrawNumber(random, 2, std::min(left / 2, 6));
    coarsening.push_back(factor);
    left /= factor;
  }
  drawn.hierarchy = *Hierarchy::Make(steps, coarsening, levels);
  drawn.options.c_sweeps.clear();
  for (int level = DrawNumber(random, 1, levels - 1); level > 0; --level) {
    drawn.options.c_sweeps.push_back(DrawNumber(random, 0, 2));
  }
  drawn.options.skips_first_down = DrawNumber(random, 0, 3) == 0;
  drawn.options.cycles = 1;
  drawn.options.measures_cycles = false;
  storage = DrawNumber(random, 0, 1) == 0 ? Storage::kAll : Storage::kCPoints;
  lanes = DrawNumber(random, 1, 4);
  return drawn;
}

std::string DrawnSolve::Text() const {
  std::ostringstream text;
  text << hierarchy.level(0).steps << " layers, c =";
  for (const int factor : setting.coarsening) text << ' ' << factor;
  text << ", sweeps of C-relaxation";
  for (const int sweeps : options.c_sweeps) text << ' ' << sweeps;
  if (options.start == Start::kNested) text << ", nested";
  if (options.skips_first_down) text << ", skips first down";
  text << (setting.storage == Storage::kAll ? ", all states" : ", C-points") << ", "
       << setting.lanes << " lanes";
  return text.str();
}

}  // namespace ucudnn::multigrid
