// A convolution of a network, by the name the network gives it.
#pragma once

#include <cstdint>
#include <string>

#include "convolution/problem.h"

namespace ucudnn {

struct Layer {
  std::string name;
  ConvolutionProblem problem;
  uint64_t lanes = 0;  // a bit for each lane that it was seen on; none: unknown

  bool operator==(const Layer&) const = default;
};

}  // namespace ucudnn
