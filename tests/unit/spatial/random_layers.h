// Draws random layers for tests of properties that every split convolution has.
#pragma once

#include <array>
#include <random>
#include <vector>

#include "tests/unit/spatial/split_layer.h"

namespace ucudnn::test {

inline int Draw(int least, int most, std::mt19937& random) {
  return std::uniform_int_distribution<int>(least, most)(random);
}

inline void SetType(ConvolutionProblem& problem, DataType type) {
  problem.type = type;
  problem.compute = type == DataType::kDouble ? type : DataType::kFloat;
}

// Returns the grid of a single group. (The `n` groups of `grid` have different images.)
inline SpatialGrid OfOneGroup(SpatialGrid grid) {
  grid.n = 1;
  return grid;
}

// Returns extents of parts. Along an axis that the grid cuts, the extents and their sum are powers
// of two, and the extents are uneven if possible. Other axes have the extents of `uncut`.
inline AxisExtents PowersOfTwo(const SpatialGrid& grid, const Spatial& uncut) {
  const std::vector<std::vector<int64_t>> rows = {{},        {},           {2, 2},
                                                  {1, 1, 2}, {1, 1, 2, 4}, {1, 1, 2, 2, 2}};
  AxisExtents parts;
  for (size_t axis = 0; axis < 3; ++axis) {
    const auto count = static_cast<size_t>(grid.Parts()[axis]);
    parts[axis] = count == 1 ? std::vector<int64_t>{uncut[axis]} : rows[count];
  }
  return parts;
}

// Returns random extents of the parts along each axis that `grid` cuts; other axes keep the
// problem's extents.
inline AxisExtents PartsOf(const SpatialGrid& grid, const ConvolutionProblem& problem, int least,
                           int most, std::mt19937& random) {
  AxisExtents extents;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int parts = grid.Parts()[axis];
    for (int part = 0; part < parts; ++part) {
      extents[axis].push_back(parts == 1 ? problem.x[axis]
                                         : Draw(least, most, random) * problem.stride[axis]);
    }
  }
  return extents;
}

// Returns the slice of each rank of `grid`; `parts` are the extents of the parts along each axis.
inline std::vector<Box3> SlicesOf(const SpatialGrid& grid, const AxisExtents& parts) {
  std::vector<Box3> slices;
  for (int rank = 0; rank < grid.Ranks(); ++rank) {
    const GridCell cell = grid.CellOf(rank);
    const std::array<int, 3> part = {cell.d, cell.h, cell.w};
    Box3& slice = slices.emplace_back();
    for (size_t axis = 0; axis < 3; ++axis) {
      const auto first = parts[axis].begin() + part[axis];
      const int64_t begin = std::accumulate(parts[axis].begin(), first, int64_t{0});
      slice[axis] = {begin, begin + *first};
    }
  }
  return slices;
}

// Returns a layer with three taps along each axis that the grid cuts, in two or three dimensions.
inline ConvolutionProblem SameOf(Operation operation, const SpatialGrid& grid, DataType type) {
  ConvolutionProblem problem = Layer(operation, 1);
  if (grid.d > 1) {
    problem.spatial_rank = 3;
    problem.w[0] = 3;
    problem.pad[0] = 1;
  }
  SetType(problem, type);
  return problem;
}

// Returns strides for the order of `layout`, with random gaps along every axis.
inline Strides WithGaps(Layout layout, const Extents5& extents, std::mt19937& random) {
  const std::array<size_t, 5> order = layout == Layout::kNchw
                                          ? std::array<size_t, 5>{4, 3, 2, 1, 0}
                                          : std::array<size_t, 5>{1, 4, 3, 2, 0};
  Strides strides = {};
  int64_t next = Draw(1, 2, random);
  for (const size_t axis : order) {
    strides[axis] = next;
    next = next * extents[axis] + Draw(0, 3, random);
  }
  return strides;
}

// Gives the tensors of each rank random gaps.
inline void AddGaps(SplitLayer& layer, std::mt19937& random) {
  for (Stripe& stripe : layer.stripes) {
    ConvolutionProblem& p = stripe.problem;
    const Spatial y = OutputExtents(p);
    p.x_strides = WithGaps(p.layout, {p.n, p.c, p.x[0], p.x[1], p.x[2]}, random);
    p.y_strides = WithGaps(p.layout, {p.n, p.k, y[0], y[1], y[2]}, random);
  }
}

// Returns a layer with eight channels in x and y, so that every image begins at a multiple of 16
// bytes in 16-bit types, too.
inline ConvolutionProblem OfAlignedImages(Operation operation, int images, DataType type) {
  ConvolutionProblem problem = Layer(operation, 1);
  problem.n = images;
  problem.c = problem.k = 8;
  SetType(problem, type);
  return problem;
}

}  // namespace ucudnn::test
