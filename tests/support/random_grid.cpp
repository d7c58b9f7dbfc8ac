#include "tests/support/random_grid.h"

#include <algorithm>

#include "tests/support/problem.h"

namespace ucudnn::test {

int RandomGrids::Draw(int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(random_);
}

ConvolutionProblem RandomGrids::Problem() {
  ConvolutionProblem problem;
  problem.operation = kOperations[Draw(0, 2)];
  problem.spatial_rank = Draw(0, 2) == 0 ? 3 : 2;
  problem.n = Draw(1, 3);
  problem.groups = Draw(0, 1) == 0 ? 1 : Draw(2, 4);
  problem.c = problem.groups * Draw(1, 2);
  problem.k = problem.groups * Draw(1, problem.groups == 1 ? 6 : 2);
  problem.type = static_cast<DataType>(Draw(0, 3));
  if (problem.type == DataType::kDouble) problem.compute = DataType::kDouble;
  problem.layout = static_cast<Layout>(Draw(0, 1));
  // NHWC problems keep an alignment of 1 byte. A larger alignment would forbid most cuts, since
  // these problems have few channels.
  if (problem.layout == Layout::kNchw) problem.alignment = 1 << Draw(0, 4);
  const bool volume = problem.spatial_rank == 3;
  for (size_t axis = volume ? 0 : 1; axis < kMaxSpatial; ++axis) {
    problem.w[axis] = Draw(1, volume ? 3 : 4);
    problem.stride[axis] = Draw(1, 4);
    problem.dilation[axis] = Draw(1, 3);
    const int extent = (problem.w[axis] - 1) * problem.dilation[axis] + 1;
    problem.pad[axis] = Draw(0, extent - 1);
    const int behind = Draw(0, 1) == 0 ? problem.pad[axis] : Draw(0, extent - 1);
    problem.extra_pad[axis] = behind - problem.pad[axis];
    const int least = std::max(1, extent - problem.pad[axis] - behind);
    problem.x[axis] = least + Draw(0, volume ? 6 : 14);
  }
  SetPackedStrides(problem);
  if (Draw(0, 2) == 0) Widen(problem.x_strides, problem, problem.x);
  if (Draw(0, 2) == 0) Widen(problem.y_strides, problem, OutputExtents(problem));
  return problem;
}

TileGrid RandomGrids::Grid(const ConvolutionProblem& problem) {
  TileGrid grid;
  if (Draw(0, 3) == 0) grid.n = Draw(1, problem.n);
  if (Draw(0, 3) == 0) grid.groups = Draw(1, problem.groups);
  if (problem.groups == 1 && problem.operation != Operation::kBackwardData && Draw(0, 3) == 0) {
    grid.k = Draw(1, problem.k);
  }
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (Draw(0, 2) > 0) grid.spatial[axis] = Draw(1, 4);
  }
  return grid;
}

void RandomGrids::Widen(Strides& strides, const ConvolutionProblem& problem,
                        const Spatial& extents) {
  const bool last = problem.layout == Layout::kNhwc;
  strides[4] += last ? Draw(0, 2) : 0;
  strides[3] = strides[4] * extents[2] + Draw(0, 2);
  strides[2] = strides[3] * extents[1];
  if (problem.spatial_rank == 3) strides[2] += Draw(0, 2);
  if (!last) strides[1] = strides[2] * extents[0] + Draw(0, 2);
  const int64_t channels = &strides == &problem.x_strides ? problem.c : problem.k;
  strides[0] = (last ? strides[2] * extents[0] : strides[1] * channels) + Draw(0, 2);
}

std::string Text(const ConvolutionProblem& problem, const TileGrid& grid) {
  std::string text = Describe(problem) + " cut into";
  for (const int parts : {grid.n, grid.groups, grid.k, int{grid.spatial[0]}, int{grid.spatial[1]},
                          int{grid.spatial[2]}}) {
    text += " " + std::to_string(parts);
  }
  return text;
}

}  // namespace ucudnn::test
