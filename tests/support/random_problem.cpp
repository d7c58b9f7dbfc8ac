#include "tests/support/random_problem.h"

namespace ucudnn {

ConvolutionProblem RandomProblem(std::mt19937& random) {
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  ConvolutionProblem problem;
  problem.operation = static_cast<Operation>(pick(0, 2));
  problem.spatial_rank = pick(2, 3);
  problem.n = pick(0, 300);
  problem.groups = pick(1, 4);
  problem.c = problem.groups * pick(1, 9);
  problem.k = problem.groups * pick(1, 9);
  for (int axis = kMaxSpatial - problem.spatial_rank; axis < kMaxSpatial; ++axis) {
    problem.w[axis] = pick(1, 5);
    problem.pad[axis] = pick(0, 3);
    problem.stride[axis] = pick(1, 4);
    problem.dilation[axis] = pick(1, 3);
    problem.x[axis] = (problem.w[axis] - 1) * problem.dilation[axis] + pick(1, 20);
  }
  problem.type = static_cast<DataType>(pick(0, 3));
  problem.compute = static_cast<DataType>(pick(0, 3));
  problem.layout = static_cast<Layout>(pick(0, 1));
  problem.mode = static_cast<ConvolutionMode>(pick(0, 1));
  problem.math = static_cast<MathType>(pick(0, 3));
  problem.alignment = 1 << pick(0, 8);
  SetPackedStrides(problem);
  if (pick(0, 2) == 0) {
    for (Strides* strides : {&problem.x_strides, &problem.y_strides}) {
      for (size_t axis = 0; axis < strides->size(); ++axis) {
        (*strides)[axis] += pick(0, 17);
      }
    }
    if (problem.spatial_rank == 2) {
      problem.x_strides[2] = problem.x_strides[3] * problem.x[1];
      problem.y_strides[2] = problem.y_strides[3] * OutputExtents(problem)[1];
    }
  }
  return problem;
}

}  // namespace ucudnn
