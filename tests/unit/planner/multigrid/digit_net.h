// Provides small residual networks with opening and closing layers, and images for them, for tests
// of training on the host and on several ranks.
#pragma once

#include <cstdint>

#include "planner/multigrid/host/training.h"
#include "planner/multigrid/residual_chain.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {

struct DigitNetShape {
  int steps = 32;
  int channels = 2;
  int extent = 4;  // rows and columns of the images and of all maps
  int classes = 3;
};

// Returns a network with a 3 x 3 convolution and ReLU, steps u + relu(K * u + b), a fully connected
// layer and a softmax.
ResidualChain DigitNet(const DigitNetShape& shape);

// Returns a network whose stages have 19, 6 and 3 residual steps, for images of 6 x 6 pixels and
// five classes. Weights are drawn, and the mini-batch has two images.
WeightedChain DrawnStages();

// Returns `count` random images. All images of a class share a pattern, and each has its own noise.
Examples DigitExamples(const DigitNetShape& shape, int count, uint64_t seed);

}  // namespace ucudnn::multigrid
