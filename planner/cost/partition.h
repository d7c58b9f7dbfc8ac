// The box of a layer's output that each worker computes, and the box of each input that the worker
// needs to compute it. convolution/partition has the arithmetic of windows. Pure functions. Source:
// DeePa, section 3 (every worker computes a disjoint part of the output).
#pragma once

#include <array>
#include <vector>

#include "convolution/partition.h"
#include "planner/cost/configuration.h"
#include "planner/cost/layer_graph.h"

namespace ucudnn::planner {

// Holds one box per worker: the product of one interval per axis. The number of a worker, written
// with one digit per axis, selects the intervals. The digit of the last axis changes fastest, as in
// the numbering of devices in ParallelConfiguration.
struct Parts {
  std::array<std::vector<Interval>, kTensorAxes> axes;

  int Workers() const;
  Box Of(int worker) const;
};

// Returns each worker's part of the output after partial sums are added up. The parts are disjoint.
Parts OutputParts(const Shape& output, const Degrees& degrees);

// Returns the box of the output that each worker computes. In the backward pass the worker needs
// the gradient of this box. Without a reduction these are the OutputParts(). The r workers of a
// reduction share one box, and each computes a partial sum of the whole box.
Parts ComputedParts(const Shape& output, const Degrees& degrees);

// Returns the input channels that part `index` of a reduction sums over.
Interval SummedPart(const PlannedLayer& layer, const Degrees& degrees, int index);

// Returns the part of input `input` that each worker of `layer` needs: the smallest box that holds
// every element read, halos included, clipped to the image. Boxes of different workers may overlap,
// and a box may be empty (as of a Concat or a Padding).
Parts NeededParts(const PlannedLayer& layer, int input, const Degrees& degrees);

}  // namespace ucudnn::planner
