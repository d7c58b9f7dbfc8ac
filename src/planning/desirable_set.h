// Desirable sets: the configurations of one kernel that no other beats in both time and workspace.
// Pure function. Source: mu-cuDNN, section III-C1; the way to find them is new.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "convolution/configuration.h"

namespace ucudnn::planning {

// Returns for every workspace of at most `limit_bytes` the fastest configuration of `n` images that
// fits: by ascending workspace and descending time (ms), each workspace and each time once.
// `measured` is any set of micro-configurations, in any order, of any sizes, with several engines
// for a size. Every micro-batch but the last is a multiple of `step`. Empty if `n` cannot be
// composed.
//
// Exact: no member is lost, so the last one takes as long as Workspace Reuse's optimum within the
// limit. Among equal times and workspaces fewer pieces win, then the engine whose text sorts first;
// the order of `measured` does not matter.
std::vector<Configuration> DesirableSet(std::span<const MicroConfiguration> measured, int n,
                                        int step, size_t limit_bytes);

}  // namespace ucudnn::planning
