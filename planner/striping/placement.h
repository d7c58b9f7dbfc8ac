// The placement of a tensor on the ranks of one group: cut into stripes, or the same on each. Plain
// values and pure functions. Axes are d, h, w.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/spatial_grid.h"
#include "convolution/stripes.h"
#include "planner/graph/shapes.h"

namespace ucudnn::planner {

constexpr std::array<char, kMaxSpatial> kAxisLetters = {'d', 'h', 'w'};

struct AxisPlacement {
  // Extents of the parts, in order. One extent means that every rank has the whole axis, because
  // the grid does not cut the axis or because the ranks hold copies.
  std::vector<int64_t> extents;
  // Rows of stored padding in the first and in the last part. `extents` includes them.
  int64_t before = 0;
  int64_t after = 0;

  bool operator==(const AxisPlacement&) const = default;
  bool IsCut() const { return extents.size() > 1; }
  int64_t Whole() const;  // sum of all extents
};

struct Placement {
  Shape shape;  // of the whole tensor, with the images of one group
  std::array<AxisPlacement, kMaxSpatial> axes;

  bool IsCut() const;
  // Returns `grid` without groups and without the axes along which this tensor is not cut.
  SpatialGrid CutGrid(const SpatialGrid& grid) const;
  // Returns the number of elements that rank number `rank` of the group holds.
  int64_t Elements(const SpatialGrid& grid, int rank) const;
  // Formats "56+56" or "56+56 x 112+112"; empty if nothing is cut.
  std::string Text() const;
};

// Returns which cell of `cut`, a CutGrid of `grid`, rank number `rank` of the group holds.
int CellIn(const SpatialGrid& cut, const SpatialGrid& grid, int rank);

// Places the whole tensor on every rank.
Placement Whole(const Shape& shape);

// Cuts a tensor as frameworks do, into nearly equal parts of multiples of `multiple` rows: the
// first parts are larger by one multiple, and the last part has the rest. A part may be empty.
Placement EqualStripes(const Shape& shape, const SpatialGrid& grid, int multiple = 1);

}  // namespace ucudnn::planner
