// Which layers belong to which level: step i of level l stands for the layers from i * span(l) on.
// Plain values; pure functions. Source: Kirby et al., section III-C and figure 2.
#pragma once

#include <vector>

#include "base/status.h"

namespace ucudnn::multigrid {

struct Level {
  int steps = 1;       // this level's states are numbered 0..steps
  int span = 1;        // layers of the network that one step stands for
  int coarsening = 1;  // steps that one step of the next level stands for; 1 on the coarsest

  int blocks() const { return steps / coarsening; }
  // C-points are the states 0, coarsening, 2 * coarsening, ...; this is the last one.
  int last_c_point() const { return blocks() * coarsening; }
};

class Hierarchy {
 public:
  // Levels over `steps` layers. Level l is coarsened by `coarsening[l]`, or by the last of them.
  // `levels` 0: as many as leave the coarsest below eight steps, at least two. Layers behind the
  // last C-point of a level are of that level alone. An error says which level would have fewer
  // than two.
  static Result<Hierarchy> Make(int steps, const std::vector<int>& coarsening, int levels = 0);

  int levels() const { return static_cast<int>(levels_.size()); }
  int coarsest() const { return levels() - 1; }
  const Level& level(int number) const { return levels_[number]; }

 private:
  std::vector<Level> levels_;
};

}  // namespace ucudnn::multigrid
