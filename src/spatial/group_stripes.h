// The stripes of one problem over the ranks of a group. Along some cut axes all ranks may hold
// copies of the whole instead: there nothing is exchanged, and only the first copy counts in a sum
// over ranks. Plain values and pure functions.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "base/spatial_grid.h"
#include "base/status.h"
#include "convolution/stripes.h"

namespace ucudnn::spatial {

// The ranks whose stripes a window over the whole image covers. They differ from this rank only
// along the axes that the window covers.
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
  std::vector<int> ranks;  // number in the group of the rank that holds each cell of `stripes`
  std::vector<Spatial> extents;   // extents of x on each of `ranks`
  bool cuts = false;              // some axis is cut into the stripes of several ranks
  bool counts = true;             // this rank holds the first copy
  Layout layout = Layout::kNchw;  // layout of packed tensors, the same on all ranks
  // Set if a window covers the image; `stripes` is not cut along its axes.
  std::optional<PooledRanks> pooled;

  // `extents` are the extents of each rank's x, by its number in the group. Fails on all ranks
  // alike if the convolution cannot be split in this way.
  static Result<GroupStripes> Make(const ConvolutionProblem& local, const SpatialGrid& grid,
                                   int rank, std::span<const Spatial> extents,
                                   const std::array<bool, kMaxSpatial>& copied);
};

}  // namespace ucudnn::spatial
