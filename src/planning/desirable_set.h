// Desirable sets: the configurations of one kernel that no other configuration beats in both time
// and workspace. Pure function. Source: mu-cuDNN, section III-C1; the algorithm is new.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "convolution/configuration.h"

namespace ucudnn::planning {

// Returns, for every workspace of at most `limit_bytes`, the fastest configuration of `n` images
// that fits the workspace. The result is in ascending order of workspace and descending order of
// time (ms); no workspace and no time occurs twice. `measured` holds micro-configurations in any
// order, of any sizes, and of any number of engines for a size. Every micro-batch but the last is a
// multiple of `step`. Empty if no micro-batches add up to `n`.
//
// The result is exact: no member is missing, so its last configuration takes as long as Workspace
// Reuse's optimum within the limit. If several configurations have equal time and workspace, the
// result contains only one: the configuration with the fewest pieces or, if these are equal, the
// one whose engine's text sorts first. The order of `measured` does not matter.
std::vector<Configuration> DesirableSet(std::span<const MicroConfiguration> measured, int n,
                                        int step, size_t limit_bytes);

}  // namespace ucudnn::planning
