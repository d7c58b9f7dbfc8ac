// Random convolutions and grids to cut them by, for tests of tiles.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "convolution/problem.h"
#include "convolution/tiles.h"

namespace ucudnn::test {

class RandomGrids {
 public:
  explicit RandomGrids(uint64_t seed) : random_(seed) {}

  // Small, of any operation, rank, type, layout, groups, stride, dilation and padding less than the
  // filter, also padded on one side alone; a third of the tensors have room between their rows.
  ConvolutionProblem Problem();
  // Many grids cannot cut the problem.
  TileGrid Grid(const ConvolutionProblem& problem);

  int Draw(int least, int most);
  std::mt19937_64& random() { return random_; }

 private:
  // Leaves room between rows, channels and images.
  void Widen(Strides& strides, const ConvolutionProblem& problem, const Spatial& extents);

  std::mt19937_64 random_;
};

// For messages.
std::string Text(const ConvolutionProblem& problem, const TileGrid& grid);

}  // namespace ucudnn::test
