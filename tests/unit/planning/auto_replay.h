// Replays batch-size policies on a full table of measurements, to see which rows each policy would
// look at, and which division it would find in them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "convolution/configuration.h"
#include "options/options.h"
#include "planning/auto_policy.h"
#include "planning/promise.h"

namespace ucudnn::planning {

struct Replay {
  std::vector<int> asked;                 // sizes, in the order they were asked for
  int rounds = 0;                         // rounds of policy auto
  size_t rows = 0;                        // measurements at those sizes: engines times sizes
  std::vector<Candidate> measured;        // the measurements that `rows` counts
  std::optional<Configuration> division;  // the fastest that `measured` allows
};

// `table` holds all measurements: a size that it lacks cannot be measured.
Replay ReplayAuto(std::span<const Candidate> table, const AutoRequest& request);
Replay ReplayPolicy(BatchSizePolicy policy, std::span<const Candidate> table,
                    const PromiseRequest& request);

}  // namespace ucudnn::planning
