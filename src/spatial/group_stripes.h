// The stripes of one problem over the ranks of a group, where some cut axes hold copies instead:
// along those every rank has the whole, so nothing is exchanged, and of a sum over ranks only the
// first copy counts. Plain values and pure functions.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/spatial_grid.h"
#include "base/status.h"
#include "convolution/stripes.h"

namespace ucudnn::spatial {

struct GroupStripes {
  Stripes stripes;         // over the axes that are stripes
  std::vector<int> ranks;  // the group's rank that holds each cell of `stripes`
  bool cuts = false;       // some axis is cut into stripes of more than one rank
  bool counts = true;      // this rank holds the first copy

  // `extents` are those of each rank's x, by its number in the group. An error is the same on all
  // ranks: the convolution cannot be split so.
  static Result<GroupStripes> Make(const ConvolutionProblem& local, const SpatialGrid& grid,
                                   int rank, std::span<const Spatial> extents,
                                   const std::array<bool, kMaxSpatial>& copied);
};

}  // namespace ucudnn::spatial
