// The layer that the protocol tests ask and run: its engines' costs are set so that algorithm 1 is
// by far the fastest and needs workspace; algorithm 0, without, runs faster in pieces.
#pragma once

#include "convolution.h"
#include "tests/support/problem.h"

namespace ucudnn::test {

constexpr int kAlgorithms = 8;  // numbers above are no algorithm of any operation
constexpr int kLayerImages = 16;

// 8 channels of 12x12, 3x3 filters to 8 channels.
ConvolutionProblem LayerProblem(Operation operation, int n = kLayerImages);

// Less than algorithm 1 of any operation needs at kLayerImages.
constexpr size_t kTightBytes = 100000;

// Writes what measuring LayerProblem would have found at every power of two up to 32 images, and
// at 15.
void PrimeLayer();

}  // namespace ucudnn::test
