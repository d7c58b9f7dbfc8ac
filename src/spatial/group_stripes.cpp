#include "spatial/group_stripes.h"

namespace ucudnn::spatial {
namespace {

constexpr std::array<int GridCell::*, kMaxSpatial> kCoordinates = {&GridCell::d, &GridCell::h,
                                                                   &GridCell::w};

}  // namespace

PooledRanks PooledRanks::Of(const SpatialGrid& grid, int rank, std::span<const Spatial> extents,
                            const std::array<bool, kMaxSpatial>& axes) {
  PooledRanks pooled;
  pooled.axes = axes;
  GridCell own = grid.CellOf(rank);
  own.n = 0;
  SpatialGrid group = grid;
  group.n = 1;
  double all = 0;
  for (int other = 0; other < group.GroupSize(); ++other) {
    const GridCell cell = group.CellOf(other);
    bool is_reached = true;
    double positions = 1;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      if (axes[axis]) {
        pooled.parts[axis] = grid.Parts()[axis];
        positions *= extents[static_cast<size_t>(other)][axis];
      } else {
        is_reached = is_reached && cell.*kCoordinates[axis] == own.*kCoordinates[axis];
      }
    }
    if (!is_reached) continue;
    if (group.RankOf(own) == other) pooled.own = pooled.ranks.size();
    pooled.ranks.push_back(other);
    pooled.shares.push_back(positions);
    all += positions;
  }
  for (double& share : pooled.shares) share /= all;
  return pooled;
}

Result<GroupStripes> GroupStripes::Make(const ConvolutionProblem& local, const SpatialGrid& grid,
                                        int rank, std::span<const Spatial> extents,
                                        const std::array<bool, kMaxSpatial>& copied) {
  // Checks that ranks with the same part of an axis have the same extent, even along axes that hold
  // copies.
  UCUDNN_RETURN_IF_ERROR(ucudnn::ExtentsOf(grid, extents).status());
  GroupStripes made;
  made.layout = local.layout;
  SpatialGrid cut = grid;
  cut.n = 1;
  GridCell own = grid.CellOf(rank);
  own.n = 0;
  const GridCell whole = own;
  const std::array<int SpatialGrid::*, kMaxSpatial> parts = {&SpatialGrid::d, &SpatialGrid::h,
                                                             &SpatialGrid::w};
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (!copied[axis]) continue;
    made.counts = made.counts && own.*kCoordinates[axis] == 0;
    cut.*parts[axis] = 1;
    own.*kCoordinates[axis] = 0;
  }
  made.cuts = cut.GroupSize() > 1;
  SpatialGrid group = grid;
  group.n = 1;
  for (int cell = 0; cell < cut.GroupSize(); ++cell) {
    GridCell at = cut.CellOf(cell);
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      if (copied[axis]) at.*kCoordinates[axis] = whole.*kCoordinates[axis];
    }
    made.ranks.push_back(group.RankOf(at));
    made.extents.push_back(extents[static_cast<size_t>(made.ranks.back())]);
  }
  UCUDNN_ASSIGN_OR_RETURN(const AxisExtents of_axes, ucudnn::ExtentsOf(cut, made.extents));
  UCUDNN_ASSIGN_OR_RETURN(made.stripes, Stripes::Make(local, cut, cut.RankOf(own), of_axes));
  return made;
}

}  // namespace ucudnn::spatial
