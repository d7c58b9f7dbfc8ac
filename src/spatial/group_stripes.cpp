#include "spatial/group_stripes.h"

namespace ucudnn::spatial {

Result<GroupStripes> GroupStripes::Make(const ConvolutionProblem& local, const SpatialGrid& grid,
                                        int rank, std::span<const Spatial> extents,
                                        const std::array<bool, kMaxSpatial>& copied) {
  // Extents must be consistent over the whole grid, copies included.
  UCUDNN_RETURN_IF_ERROR(ucudnn::ExtentsOf(grid, extents).status());
  GroupStripes made;
  SpatialGrid cut = grid;
  cut.n = 1;
  GridCell own = grid.CellOf(rank);
  own.n = 0;
  const GridCell whole = own;
  const std::array<int GridCell::*, kMaxSpatial> coordinates = {&GridCell::d, &GridCell::h,
                                                                &GridCell::w};
  const std::array<int SpatialGrid::*, kMaxSpatial> parts = {&SpatialGrid::d, &SpatialGrid::h,
                                                             &SpatialGrid::w};
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (!copied[axis]) continue;
    made.counts = made.counts && own.*coordinates[axis] == 0;
    cut.*parts[axis] = 1;
    own.*coordinates[axis] = 0;
  }
  made.cuts = cut.GroupSize() > 1;
  SpatialGrid group = grid;
  group.n = 1;
  std::vector<Spatial> cut_extents;
  for (int cell = 0; cell < cut.GroupSize(); ++cell) {
    GridCell at = cut.CellOf(cell);
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      if (copied[axis]) at.*coordinates[axis] = whole.*coordinates[axis];
    }
    made.ranks.push_back(group.RankOf(at));
    cut_extents.push_back(extents[static_cast<size_t>(made.ranks.back())]);
  }
  UCUDNN_ASSIGN_OR_RETURN(const AxisExtents of_axes, ucudnn::ExtentsOf(cut, cut_extents));
  UCUDNN_ASSIGN_OR_RETURN(made.stripes, Stripes::Make(local, cut, cut.RankOf(own), of_axes));
  return made;
}

}  // namespace ucudnn::spatial
