// The stripes of one problem over the ranks of a group, where some cut axes hold copies instead:
// along those every rank has the whole, so nothing is exchanged, and of a sum over ranks only the
// first copy counts. Plain values and pure functions.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "base/spatial_grid.h"
#include "base/status.h"
#include "convolution/stripes.h"

namespace ucudnn::spatial {

// The ranks that a window over the whole image reaches: those that differ from this one along the
// axes that it covers alone.
struct PooledRanks {
  std::array<bool, kMaxSpatial> axes = {};
  Spatial parts = {1, 1, 1};   // of the grid along these axes, 1 along the others
  std::vector<int> ranks;      // of the group, by cell of `parts`, w fastest
  size_t own = 0;              // this rank's place among them
  std::vector<double> shares;  // what each has of the positions under the window

  // `extents` are those of each rank's x, by its number in the group; some axis is pooled.
  static PooledRanks Of(const SpatialGrid& grid, int rank, std::span<const Spatial> extents,
                        const std::array<bool, kMaxSpatial>& axes);
};

struct GroupStripes {
  Stripes stripes;                    // over the axes that are stripes
  std::vector<int> ranks;             // the group's rank that holds each cell of `stripes`
  std::vector<Spatial> extents;       // of x there
  bool cuts = false;                  // some axis is cut into stripes of more than one rank
  bool counts = true;                 // this rank holds the first copy
  Layout layout = Layout::kNchw;      // of what is packed, the same on all ranks
  std::optional<PooledRanks> pooled;  // along these axes `stripes` is not cut

  // `extents` are those of each rank's x, by its number in the group. An error is the same on all
  // ranks: the convolution cannot be split so.
  static Result<GroupStripes> Make(const ConvolutionProblem& local, const SpatialGrid& grid,
                                   int rank, std::span<const Spatial> extents,
                                   const std::array<bool, kMaxSpatial>& copied);
};

}  // namespace ucudnn::spatial
