// Which box of a layer's tensors each worker computes, and which boxes of its inputs it needs for
// that, by the windows of convolution/partition. Pure functions. Source: DeePa, section 3 (every
// worker computes a disjoint part of the output).
#pragma once

#include <array>
#include <vector>

#include "convolution/partition.h"
#include "planner/cost/configuration.h"
#include "planner/cost/layer_graph.h"

namespace ucudnn::planner {

// One box per worker: the product of one interval per axis. Worker i has the intervals that the
// digits of i choose, the last axis running fastest, as ParallelConfiguration numbers devices.
struct Parts {
  std::array<std::vector<Interval>, kTensorAxes> axes;

  int Workers() const;
  Box Of(int worker) const;
};

// What each worker has of the output once partial sums are added up: disjoint parts.
Parts OutputParts(const Shape& output, const Degrees& degrees);

// What each worker computes, and needs the gradient of: as OutputParts, but the r workers of a
// reduction have the same box, of which each computes a partial sum.
Parts ComputedParts(const Shape& output, const Degrees& degrees);

// Input channels that part `index` of a reduction sums over.
Interval SummedPart(const PlannedLayer& layer, const Degrees& degrees, int index);

// What of input `input` each worker of `layer` needs: the smallest boxes that hold every element
// read, halos included, clipped to the image. Boxes of different workers may overlap; those of a
// Concat's workers may be empty.
Parts NeededParts(const PlannedLayer& layer, int input, const Degrees& degrees);

}  // namespace ucudnn::planner
