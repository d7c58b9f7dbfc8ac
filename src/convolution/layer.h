// A convolution of a network, with its name in the network.
#pragma once

#include <cstdint>
#include <string>

#include "convolution/problem.h"

namespace ucudnn {

struct Layer {
  std::string name;
  ConvolutionProblem problem;
  // Bit i is set if lane i has run the layer; 0: unknown. A lane is a handle on a stream.
  uint64_t lanes = 0;

  bool operator==(const Layer&) const = default;
};

}  // namespace ucudnn
