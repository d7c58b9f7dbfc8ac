// The stripes of one problem over the ranks of a group. Along some cut axes all ranks may hold
// copies of the whole tensor instead of stripes. Nothing is exchanged along these axes, and only
// the first copy counts in a sum over ranks. Plain values and pure functions.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "base/spatial_grid.h"
#include "base/status.h"
#include "convolution/stripes.h"

namespace ucudnn::spatial {

// The ranks whose stripes are covered by a window over the whole image. Their cells differ from
// this rank's cell only along the axes that the window covers.
struct PooledRanks {
  std::array<bool, kMaxSpatial> axes = {};
  Spatial parts = {1, 1, 1};   // the grid's parts along `axes`, 1 along all other axes
  std::vector<int> ranks;      // numbers in the group, in the order of cells of `parts`, w fastest
  size_t own = 0;              // index of this rank in `ranks`
  std::vector<double> shares;  // each rank's share of the positions under the window

  // `extents` are the extents of each rank's x, by its number in the group. REQUIRES: some element
  // of `axes` is true.
  static PooledRanks Of(const SpatialGrid& grid, int rank, std::span<const Spatial> extents,
                        const std::array<bool, kMaxSpatial>& axes);
};

struct GroupStripes {
  Stripes stripes;         // along the axes that hold stripes
  std::vector<int> ranks;  // by cell of `stripes`: the rank that holds the cell, as a group rank
  std::vector<Spatial> extents;   // extents of x on each of `ranks`
  bool cuts = false;              // some axis is cut into stripes of several ranks
  bool counts = true;             // this rank holds the first copy
  Layout layout = Layout::kNchw;  // layout of packed tensors, the same on all ranks
  // Set if a window covers the whole image; `stripes` is not cut along the window's axes.
  std::optional<PooledRanks> pooled;

  // `extents` are the extents of each rank's x, by its number in the group. If the convolution
  // cannot be split in this way, fails with the same error on all ranks.
  static Result<GroupStripes> Make(const ConvolutionProblem& local, const SpatialGrid& grid,
                                   int rank, std::span<const Spatial> extents,
                                   const std::array<bool, kMaxSpatial>& copied);
};

}  // namespace ucudnn::spatial
