// A convolution problem for tests, given by the fields that matter to the test.
#pragma once

#include "convolution/problem.h"

namespace ucudnn::test {

constexpr Operation kOperations[] = {Operation::kForward, Operation::kBackwardData,
                                     Operation::kBackwardFilter};

// A small convolution by default: 8 images with 4 channels of 8x8 elements, 3x3 filters to 8
// channels, and images padded so that they keep their size. The fields have the names and the order
// of ConvolutionProblem's.
struct SmallProblem {
  Operation operation = Operation::kForward;
  int spatial_rank = 2;
  int n = 8;
  int c = 4;
  int k = 8;
  int groups = 1;
  Spatial x = {1, 8, 8};
  Spatial w = {1, 3, 3};
  Spatial pad = {0, 1, 1};
  Spatial stride = {1, 1, 1};
  Spatial dilation = {1, 1, 1};
  DataType type = DataType::kFloat;
  Layout layout = Layout::kNchw;
  int alignment = 1;
};

// Returns the problem with packed tensors. Its sums are in fp32, or in fp64 for fp64 tensors.
// Example: ProblemWith({.n = 16, .type = DataType::kHalf}).
ConvolutionProblem ProblemWith(const SmallProblem& said = {});

// Returns `problem` with `n` images.
inline ConvolutionProblem WithBatch(ConvolutionProblem problem, int n) {
  problem.n = n;
  return problem;
}

}  // namespace ucudnn::test
