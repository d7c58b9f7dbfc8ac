// Random valid convolution problems, for property tests.
#pragma once

#include <random>

#include "convolution/problem.h"

namespace ucudnn {

// Returns a small problem of any operation, rank, type, layout, group count, dilation and
// alignment; every third one has padded (non-packed) strides. The depth stride of a 2-D tensor is
// its height stride times its height.
ConvolutionProblem RandomProblem(std::mt19937& random);

}  // namespace ucudnn
