// The layer that the protocol tests ask about and run. Its engines' costs are set so that algorithm
// 1 is by far the fastest and needs workspace; algorithm 0 needs none and is faster in pieces.
#pragma once

#include "convolution.h"
#include "tests/support/problem.h"

namespace ucudnn::test {

constexpr int kAlgorithms = 8;  // no algorithm of any operation has this number or a larger one
constexpr int kLayerImages = 16;

// Returns a layer of 8 channels of 12x12 pixels, with 3x3 filters to 8 channels.
ConvolutionProblem LayerProblem(Operation operation, int n = kLayerImages);

// Returns such a layer with distances between its images that no earlier one has, so that nothing
// is known of it yet.
ConvolutionProblem FreshLayer(Operation operation, int n);

// A limit below the need of algorithm 1 of any operation at kLayerImages.
constexpr size_t kTightBytes = 100000;

// Writes what measuring LayerProblem would have found at every power of two up to 32 images, and at
// 15.
void PrimeLayer();

}  // namespace ucudnn::test
