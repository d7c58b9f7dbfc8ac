// Random valid convolution problems, for property tests.
#pragma once

#include <random>

#include "convolution/problem.h"

namespace ucudnn {

// Returns a problem of any operation, rank, type, layout, group count, dilation and alignment.
// About a third of the problems have padded (non-packed) strides. The depth stride of a 2-D tensor
// is its height stride times its height.
ConvolutionProblem RandomProblem(std::mt19937& random);

}  // namespace ucudnn
