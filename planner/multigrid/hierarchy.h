// The levels of a chain, and which layers their steps stand for: step i of level l stands for the
// layers from i * span(l) on.
// Plain values; pure functions. Source: Kirby et al., section III-C and figure 2.
#pragma once

#include <vector>

#include "base/status.h"

namespace ucudnn::multigrid {

struct Level {
  int steps = 1;       // this level's states are numbered 0..steps
  int span = 1;        // layers of the network that one step stands for
  int coarsening = 1;  // steps that one step of the next level stands for; 1 on the coarsest
  int lead = 0;        // steps in front of the first C-point, fewer than `coarsening`

  int blocks() const { return (steps - lead) / coarsening; }
  // C-points are the states lead, lead + coarsening, lead + 2 * coarsening, ...
  int c_point(int block) const { return lead + block * coarsening; }
  int last_c_point() const { return c_point(blocks()); }
  // Returns the block of a state, or -1 for a state in front of the first C-point.
  int BlockOf(int state) const { return state < lead ? -1 : (state - lead) / coarsening; }
  int FirstStateOf(int block) const { return block < 0 ? 0 : c_point(block); }
};

class Hierarchy {
 public:
  // Makes levels over `steps` layers. Level l is coarsened by `coarsening[l]`, or by the last
  // factor if there are fewer. With `levels` 0, it coarsens until the coarsest level has fewer than
  // eight steps or another level would have fewer than two, and at least once. Layers behind the
  // last C-point of a level belong to that level alone. Fails if a level would have fewer than two
  // steps, and names the level, or if a factor is below 2.
  static Result<Hierarchy> Make(int steps, const std::vector<int>& coarsening, int levels = 0);

  // Returns the same states in reverse order, for the adjoint. The C-points are the same, and the
  // steps that lay behind the last C-point become the lead. Step i of the result is step `steps` -
  // 1 - i of this hierarchy.
  Hierarchy Mirrored() const;
  // Returns the first `levels` levels of the layers from `begin` up to `end`, the last of these
  // levels not coarsened. REQUIRES: no level has a lead, `begin` is a multiple of the last level's
  // span, and so is `end`, unless it is the end of the chain.
  Hierarchy Part(int begin, int end, int levels) const;
  // Returns the levels from `first` on. A step still stands for the same number of layers.
  Hierarchy CoarseLevels(int first) const;

  int levels() const { return static_cast<int>(levels_.size()); }
  int coarsest() const { return levels() - 1; }
  const Level& level(int number) const { return levels_[number]; }

 private:
  std::vector<Level> levels_;
};

}  // namespace ucudnn::multigrid
