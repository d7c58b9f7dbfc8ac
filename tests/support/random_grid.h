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
  // Its padding is smaller than the dilated filter and may differ at the two ends of an axis. A
  // third of the tensors may have gaps between rows, channels and images.
  ConvolutionProblem Problem();
  // Returns a random grid, which often cannot cut `problem`.
  TileGrid Grid(const ConvolutionProblem& problem);

  int Draw(int least, int most);
  std::mt19937_64& random() { return random_; }

 private:
  // Makes gaps between rows, channels and images.
  void Widen(Strides& strides, const ConvolutionProblem& problem, const Spatial& extents);

  std::mt19937_64 random_;
};

// Describes the problem and the grid in words, for messages.
std::string Text(const ConvolutionProblem& problem, const TileGrid& grid);

}  // namespace ucudnn::test
