// Desirable sets: the configurations of one kernel that no other beats in both time and workspace.
// Pure function. Source: mu-cuDNN, section III-C1; how it is found is ours.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "convolution/configuration.h"

namespace ucudnn::planning {

// The fastest configuration of `n` images for every workspace of at most `limit_bytes`, by rising
// workspace and falling time (ms), out of any set of measured micro-configurations (any order, any
// sizes, several engines a size). Every micro-batch but the last is a multiple of `step`. Empty
// when `n` cannot be composed. Exact: no pruning loses a member, so the last one lasts as long as
// Workspace Reuse's optimum within the limit.
//
// Each workspace and each time appears once. Among equal times and workspaces, fewer pieces; then
// the engine whose text sorts first. What is returned does not depend on the order of `measured`.
std::vector<Configuration> DesirableSet(std::span<const MicroConfiguration> measured, int n,
                                        int step, size_t limit_bytes);

}  // namespace ucudnn::planning
