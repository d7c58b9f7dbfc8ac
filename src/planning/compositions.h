// Compositions finds, for every number of images, the fastest pieces that add up to it. The caller
// admits the pieces one after the other. Workspace Reuse and desirable sets are built on
// compositions. Thread-compatible.
#pragma once

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "convolution/configuration.h"

namespace ucudnn::planning {

// The time for a number of images that no pieces add up to.
constexpr double kNoTime = std::numeric_limits<double>::infinity();
// Time (ms) and number of pieces, compared in this order: if two times are equal, the cost with
// fewer pieces is less.
using Cost = std::pair<double, int>;

inline Cost Sum(const Cost& a, const Cost& b) { return {a.first + b.first, a.second + b.second}; }

class Compositions {
 public:
  // Composes up to `n` images. The size of every piece but the last must be a multiple of `step`.
  // REQUIRES: n >= 1 and step >= 1.
  Compositions(int n, int step);

  // Admits `row` as a piece of its size; sizes may come in any order. The caller owns `row` and
  // keeps it alive. Returns false if the row cannot make a composition of all n images faster.
  // REQUIRES: 1 <= row.micro_batch <= n, and a finite time >= 0.
  bool Admit(const MicroConfiguration& row);

  // Returns the cost of the fastest composition of `images`; its time is infinite if there is none.
  // REQUIRES: 0 <= images <= n.
  Cost Of(int images) const;

  // Returns the composition whose cost is Of(images): the largest pieces come first, a piece that
  // is not a multiple of the step comes last. REQUIRES: there is a composition.
  Configuration Divide(int images) const;

 private:
  // Returns the cost of the fastest composition of `images`. The second value is the size of its
  // last piece if that size is not a multiple of the step, otherwise 0.
  std::pair<Cost, int> Best(int images) const;

  const int step_;
  std::vector<const MicroConfiguration*> fastest_;  // by size in images
  std::vector<Cost> cost_;                          // by size in steps
  std::vector<int> piece_;  // by total in steps: a piece (in steps) of the fastest composition
};

}  // namespace ucudnn::planning
