// Makes residual chains of many kinds of steps, with random weights, and draws hierarchies and
// options of a solve, for property tests.
#pragma once

#include <random>
#include <string>

#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {

enum class StepKind {
  kConvolution,      // a 3 x 3 convolution and an activation
  kTwoConvolutions,  // a 3 x 3 convolution to more channels, an activation, a 1 x 1 convolution
  kGroups,           // a 3 x 3 convolution dilated by 2 in two groups, and an activation
  kPreActivation,    // a scale, an activation, a 1 x 3 and a 3 x 1 convolution
  kPooled,           // a 3 x 3 average pooling, a 3 x 3 convolution and an activation
  kFullyConnected,   // a fully connected layer and an activation
  kBottleneck,       // fully connected to fewer numbers, an activation, fully connected back
};
constexpr int kStepKinds = 7;

struct NetShape {
  std::vector<StepKind> kinds;  // by step; kFullyConnected and kBottleneck require an extent of 1
  int channels = 2;             // must be even
  int extent = 3;
  planner::ActivationKind activation = planner::ActivationKind::kTanh;
  int batch = 1;
};

// Returns a chain whose steps have these operators, one after the other. Weights are drawn from
// N(0, gain^2 / inputs of an output), biases from N(0, 0.01), and u0 from N(0, 1).
WeightedChain ChainOf(const std::vector<std::vector<planner::Operator>>& steps,
                      const NetShape& shape, std::mt19937_64& random, double gain);
WeightedChain DrawnNet(const NetShape& shape, std::mt19937_64& random, double gain);

// Draws a small shape of `steps` steps, which are of one kind or of several.
NetShape DrawNetShape(std::mt19937_64& random, int steps);

std::string TextOf(const NetShape& shape);

struct DrawnSolve {
  Hierarchy hierarchy;
  SolveSetting setting;  // settings of `hierarchy`; `coarse` and `h` are not drawn
  SolveOptions options;  // of one cycle from a broadcast, without residuals and tolerance

  std::string Text() const;
};

// Draws 4 to `most_steps` layers and at least two levels. The coarsening factors need not divide
// the number of layers.
DrawnSolve DrawSolve(std::mt19937_64& random, int most_steps);

// Draws a number from `low` to `high`, both included.
int DrawNumber(std::mt19937_64& random, int low, int high);

}  // namespace ucudnn::multigrid
