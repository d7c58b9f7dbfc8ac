// Workspace Reuse (WR): the fastest division of one kernel's mini-batch when its micro-batches run
// one after the other in the same workspace. Pure function. Source: mu-cuDNN, section III-B.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "convolution/configuration.h"

namespace ucudnn::planning {

// The configuration of least total time (ms) for `n` images with at most `limit_bytes` of
// workspace, out of any set of measured micro-configurations (any order, any sizes, several engines
// a size). Every micro-batch but the last is a multiple of `step`. Among equal times, fewer pieces.
// None when `n` cannot be composed. Exact: no pruning loses the optimum.
std::optional<Configuration> OptimizeWorkspaceReuse(std::span<const MicroConfiguration> measured,
                                                    int n, int step, size_t limit_bytes);

}  // namespace ucudnn::planning
