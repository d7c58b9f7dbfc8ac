// Batch-size policies replayed on a full table of measurements: which rows each would have looked
// at, and the division it would have found.
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
  int rounds = 0;                         // of policy auto
  size_t rows = 0;                        // measurements at those sizes: engines times sizes
  std::vector<Candidate> measured;        // those rows
  std::optional<Configuration> division;  // the fastest they allow
};

// `table` holds every measurement there is: sizes it lacks cannot be measured.
Replay ReplayAuto(std::span<const Candidate> table, const AutoRequest& request);
Replay ReplayPolicy(BatchSizePolicy policy, std::span<const Candidate> table,
                    const PromiseRequest& request);

}  // namespace ucudnn::planning
