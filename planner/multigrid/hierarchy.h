// The levels of a chain, and the layers that their steps replace: step i of a level replaces
// Level::span layers, from layer i * span on. Plain values; pure functions. Source: Kirby et al.,
// section III-C and figure 2.
#pragma once

#include <vector>

#include "base/status.h"

namespace ucudnn::multigrid {

struct Level {
  int steps = 1;  // the states of this level are numbered 0 to `steps`
  int span = 1;   // number of the network's layers that one step replaces
  // Number of steps that one step of the next level replaces; 1 on the coarsest level.
  int coarsening = 1;
  int lead = 0;  // number of steps in front of the first C-point, less than `coarsening`

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
  // Makes levels over `steps` layers. Level l is coarsened by coarsening[l]; levels beyond the list
  // are coarsened by its last factor. With `levels` 0, coarsens at least once, and then until the
  // coarsest level has fewer than eight steps or the next level would have fewer than two. Layers
  // after the last C-point of a level have no step on the next level. Fails if a level would have
  // fewer than two steps, with an error that names the level, or if a factor is below 2.
  static Result<Hierarchy> Make(int steps, const std::vector<int>& coarsening, int levels = 0);

  // Returns the hierarchy of the adjoint, whose states are the same in reverse order. The C-points
  // are the same, and the steps after the last C-point become the lead. Step i of a mirrored level
  // is step `steps` - 1 - i of this level.
  Hierarchy Mirrored() const;
  // Returns the first `levels` levels of the layers `begin` to `end` - 1; the last of these levels
  // is not coarsened. REQUIRES: no level has a lead; `begin` is a multiple of the last level's
  // span, and so is `end` unless it is the end of the chain.
  Hierarchy Part(int begin, int end, int levels) const;
  // Returns the levels from `first` on. Their spans stay the same.
  Hierarchy CoarseLevels(int first) const;

  int levels() const { return static_cast<int>(levels_.size()); }
  int coarsest() const { return levels() - 1; }
  const Level& level(int number) const { return levels_[number]; }

 private:
  std::vector<Level> levels_;
};

}  // namespace ucudnn::multigrid
