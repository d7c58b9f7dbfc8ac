// The stripes of one problem over the ranks of a group. Some cut axes may hold copies instead.
// Along those every rank has the whole, so nothing is exchanged, and only the first copy counts in
// a sum over ranks. Plain values and pure functions.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "base/spatial_grid.h"
#include "base/status.h"
#include "convolution/stripes.h"

namespace ucudnn::spatial {

// The ranks whose stripes a window over the whole image covers: they differ from this rank only
// along the axes that the window covers.
struct PooledRanks {
  std::array<bool, kMaxSpatial> axes = {};
  Spatial parts = {1, 1, 1};   // the grid's parts along these axes, 1 along all other axes
  std::vector<int> ranks;      // numbers in the group, by cell of `parts`, w fastest
  size_t own = 0;              // this rank's place among them
  std::vector<double> shares;  // each rank's share of the positions under the window

  // `extents` are the extents of each rank's x, by its number in the group. REQUIRES: some axis is
  // pooled.
  static PooledRanks Of(const SpatialGrid& grid, int rank, std::span<const Spatial> extents,
                        const std::array<bool, kMaxSpatial>& axes);
};

struct GroupStripes {
  Stripes stripes;                    // over the axes that are stripes
  std::vector<int> ranks;             // the group's rank that holds each cell of `stripes`
  std::vector<Spatial> extents;       // extents of x on those ranks
  bool cuts = false;                  // some axis is cut into stripes of more than one rank
  bool counts = true;                 // this rank holds the first copy
  Layout layout = Layout::kNchw;      // layout of packed tensors, the same on all ranks
  std::optional<PooledRanks> pooled;  // `stripes` is not cut along these axes

  // `extents` are the extents of each rank's x, by its number in the group. Fails on all ranks if
  // the convolution cannot be split in this way.
  static Result<GroupStripes> Make(const ConvolutionProblem& local, const SpatialGrid& grid,
                                   int rank, std::span<const Spatial> extents,
                                   const std::array<bool, kMaxSpatial>& copied);
};

}  // namespace ucudnn::spatial
