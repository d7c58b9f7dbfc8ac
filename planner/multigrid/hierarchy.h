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
  int lead = 0;        // steps in front of the first C-point, fewer than `coarsening`

  int blocks() const { return (steps - lead) / coarsening; }
  // C-points are the states lead, lead + coarsening, lead + 2 * coarsening, ...
  int c_point(int block) const { return lead + block * coarsening; }
  int last_c_point() const { return c_point(blocks()); }
  // In which block a state is: -1 for those in front of the first C-point.
  int BlockOf(int state) const { return state < lead ? -1 : (state - lead) / coarsening; }
  int FirstStateOf(int block) const { return block < 0 ? 0 : c_point(block); }
};

class Hierarchy {
 public:
  // Levels over `steps` layers. Level l is coarsened by `coarsening[l]`, or by the last of them.
  // `levels` 0: as many as leave the coarsest below eight steps, at least two. Layers behind the
  // last C-point of a level are of that level alone. An error says which level would have fewer
  // than two.
  static Result<Hierarchy> Make(int steps, const std::vector<int>& coarsening, int levels = 0);

  // The same states in reverse order, for the adjoint: it has the same C-points, and what lay
  // behind the last one leads to the first. Step i is step `steps` - 1 - i of this hierarchy.
  Hierarchy Mirrored() const;
  // The first `levels` levels of the layers from `begin` up to `end`, the last of them not
  // coarsened. REQUIRES: no level has a lead, `begin` is a multiple of the last level's span, and
  // so is `end` where it is not the last layer's.
  Hierarchy Part(int begin, int end, int levels) const;
  // Its levels from `first` on. A step keeps the number of layers that it stands for.
  Hierarchy CoarseLevels(int first) const;

  int levels() const { return static_cast<int>(levels_.size()); }
  int coarsest() const { return levels() - 1; }
  const Level& level(int number) const { return levels_[number]; }

 private:
  std::vector<Level> levels_;
};

}  // namespace ucudnn::multigrid
