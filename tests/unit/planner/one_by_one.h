// Counts what moves between layers element by element: which output elements a worker computes,
// which input elements those read, and who holds them. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/configuration.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

// Numbers are in elements; the members have the same meaning as in Traffic.
struct Counted {
  int64_t moved = 0;
  int64_t most_received = 0;
  std::vector<int64_t> busiest;
};

// Counts input `input` of `layer` on its way from where `from` has it to where `to` needs it.
Counted CountOneByOne(const Machine& machine, const PlannedLayer& layer, int input,
                      const ParallelConfiguration& from, const ParallelConfiguration& to);

// Counts partial sums of the output on their way to the devices that add them up.
Counted CountPartialSums(const Machine& machine, const PlannedLayer& layer,
                         const ParallelConfiguration& configuration);

}  // namespace ucudnn::planner
