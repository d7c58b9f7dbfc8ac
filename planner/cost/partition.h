// Which box of a tensor each worker computes, and which boxes of its inputs it needs for that. Pure
// functions. Source: DeePa, section 3 (every worker computes a disjoint part of the output).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/cost/configuration.h"
#include "planner/cost/layer_graph.h"

namespace ucudnn::planner {

struct Interval {  // half open
  int64_t begin = 0;
  int64_t end = 0;

  bool operator==(const Interval&) const = default;
  int64_t Length() const { return end - begin; }
};

int64_t Overlap(const Interval& a, const Interval& b);

// Part `index` of `extent` elements in `parts`; the first parts are the larger ones.
Interval Part(int64_t extent, int parts, int index);

constexpr int kTensorAxes = 5;  // n, c, d, h, w
using Box = std::array<Interval, kTensorAxes>;

int64_t Elements(const Box& box);

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
