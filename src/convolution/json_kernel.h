// Kernels and their plans as JSON files have them: the parts that reports and workspace plans
// share. Faults are kept by the places. Pure functions.
#pragma once

#include <optional>

#include "base/json_place.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"

namespace ucudnn {

// The convolution of an object's `op` and `problem`.
ConvolutionProblem ReadProblem(const JsonPlace& kernel);

// Runs of equal micro-batches that make up `images`; gives the time of all, where all have one.
std::optional<double> ReadPlan(const JsonPlace& list, int images, Configuration& configuration);

}  // namespace ucudnn
