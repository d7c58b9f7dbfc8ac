// A convolution of a network, by the name the network gives it.
#pragma once

#include <string>

#include "convolution/problem.h"

namespace ucudnn {

struct Layer {
  std::string name;
  ConvolutionProblem problem;

  bool operator==(const Layer&) const = default;
};

}  // namespace ucudnn
