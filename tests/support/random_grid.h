// Random convolutions, and grids that cut them, for tests of tiles.
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

  // Returns a small problem of any operation, rank, type, layout, group count, stride and dilation.
  // Its padding is smaller than the dilated filter and may differ at the two ends of an axis. About
  // a third of the tensors may have gaps (Widen).
  ConvolutionProblem Problem();
  // Returns a random grid, which often cannot cut `problem`.
  TileGrid Grid(const ConvolutionProblem& problem);

  int Draw(int least, int most);
  std::mt19937_64& random() { return random_; }

 private:
  // Adds random gaps to packed strides: between rows, between images, and between channels (NCHW)
  // or pixels (NHWC). In three dimensions, also between planes.
  void Widen(Strides& strides, const ConvolutionProblem& problem, const Spatial& extents);

  std::mt19937_64 random_;
};

// Describes the problem and the grid in words, for messages.
std::string Text(const ConvolutionProblem& problem, const TileGrid& grid);

}  // namespace ucudnn::test
