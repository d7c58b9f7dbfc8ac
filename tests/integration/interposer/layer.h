// The layer that protocol tests ask about and run. PrimeLayer stores times for it. Algorithm 1,
// which needs workspace, is by far the fastest. Algorithm 0 needs no workspace, and takes less time
// per image in pieces of at most 8 images than in larger ones.
#pragma once

#include "convolution.h"
#include "tests/support/problem.h"

namespace ucudnn::test {

constexpr int kAlgorithms = 8;  // larger than all algorithm numbers of all operations
constexpr int kLayerImages = 16;

// Returns a layer of `n` images of 8 channels and 12x12 pixels, with 3x3 filters to 8 channels.
ConvolutionProblem LayerProblem(Operation operation, int n = kLayerImages);

// Returns LayerProblem(operation, n) with a distance between images that no earlier call has
// returned, so ucudnn treats it as a new kernel.
ConvolutionProblem FreshLayer(Operation operation, int n);

// A limit below the need of algorithm 1 of any operation at kLayerImages.
constexpr size_t kTightBytes = 100000;

// Writes measurements of LayerProblem to the store, for all powers of two up to 32 images and for
// 15 images.
void PrimeLayer();

}  // namespace ucudnn::test
