#include "planner/striping/placement.h"

#include <algorithm>
#include <numeric>

#include "base/text.h"

namespace ucudnn::planner {
namespace {

constexpr std::array<int SpatialGrid::*, kMaxSpatial> kParts = {&SpatialGrid::d, &SpatialGrid::h,
                                                                &SpatialGrid::w};

std::array<int, kMaxSpatial> PartsOf(const SpatialGrid& grid, int rank) {
  const GridCell cell = grid.CellOf(rank);
  return {cell.d, cell.h, cell.w};
}

}  // namespace

int64_t AxisPlacement::Whole() const {
  return std::accumulate(extents.begin(), extents.end(), int64_t{0});
}

bool Placement::IsCut() const {
  return std::any_of(axes.begin(), axes.end(), [](const auto& axis) { return axis.IsCut(); });
}

SpatialGrid Placement::CutGrid(const SpatialGrid& grid) const {
  SpatialGrid cut = grid;
  cut.n = 1;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (!axes[axis].IsCut()) cut.*kParts[axis] = 1;
  }
  return cut;
}

int64_t Placement::Elements(const SpatialGrid& grid, int rank) const {
  const std::array<int, kMaxSpatial> part = PartsOf(grid, rank);
  int64_t elements = int64_t{shape.n} * shape.c;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    elements *= axes[axis].extents[axes[axis].IsCut() ? static_cast<size_t>(part[axis]) : 0];
  }
  return elements;
}

std::string Placement::Text() const {
  if (!IsCut()) return "";
  std::vector<std::string> texts;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (!axes[axis].IsCut()) continue;
    const std::vector<int64_t>& extents = axes[axis].extents;
    std::vector<std::string> parts;
    for (size_t part = 0; part < extents.size();) {
      const auto other = std::find_if(extents.begin() + static_cast<std::ptrdiff_t>(part),
                                      extents.end(), [&](int64_t e) { return e != extents[part]; });
      const auto next = static_cast<size_t>(other - extents.begin());
      const std::string extent = std::to_string(extents[part]);
      if (next - part > 2) {
        parts.push_back(std::to_string(next - part) + "*" + extent);
      } else {
        parts.insert(parts.end(), next - part, extent);
      }
      part = next;
    }
    texts.push_back(Join(parts, "+"));
  }
  return Join(texts, " x ");
}

int CellIn(const SpatialGrid& cut, const SpatialGrid& grid, int rank) {
  const std::array<int, kMaxSpatial> part = PartsOf(grid, rank);
  return cut.RankOf({0, cut.d > 1 ? part[0] : 0, cut.h > 1 ? part[1] : 0, cut.w > 1 ? part[2] : 0});
}

Placement Whole(const Shape& shape) {
  Placement placement;
  placement.shape = shape;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    placement.axes[axis].extents = {shape.extents[axis]};
  }
  return placement;
}

Placement EqualStripes(const Shape& shape, const SpatialGrid& grid, int multiple) {
  Placement placement;
  placement.shape = shape;
  const std::array<int, kMaxSpatial> parts = grid.Parts();
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    std::vector<int64_t>& extents = placement.axes[axis].extents;
    const int64_t blocks = CeilDivide(shape.extents[axis], multiple);
    for (int part = 0; part < parts[axis]; ++part) {
      const Interval owned = Part(blocks, parts[axis], part);
      extents.push_back(std::min<int64_t>(owned.end * multiple, shape.extents[axis]) -
                        std::min<int64_t>(owned.begin * multiple, shape.extents[axis]));
    }
  }
  return placement;
}

}  // namespace ucudnn::planner
