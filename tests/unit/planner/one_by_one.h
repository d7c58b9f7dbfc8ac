// Counts, element by element, what moves between layers, and the partial sums that move within a
// layer. Uses only three definitions: which output elements a worker computes, which input elements
// an output element reads, and which worker holds an element. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/configuration.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

// Numbers of elements. The members have the same meaning as in Traffic.
struct Counted {
  int64_t moved = 0;
  int64_t most_received = 0;
  std::vector<int64_t> busiest;
};

// Counts the elements of input `input` of `layer` that move from the workers that hold them under
// `from` to the workers that need them under `to`.
Counted CountOneByOne(const Machine& machine, const PlannedLayer& layer, int input,
                      const ParallelConfiguration& from, const ParallelConfiguration& to);

// Counts the partial sums of the output that move to the devices that add them up.
Counted CountPartialSums(const Machine& machine, const PlannedLayer& layer,
                         const ParallelConfiguration& configuration);

}  // namespace ucudnn::planner
