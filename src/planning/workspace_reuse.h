// Workspace Reuse (WR): the fastest division of one kernel's mini-batch whose micro-batches run one
// after the other in the same workspace. Pure functions. Source: mu-cuDNN, section III-B.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "convolution/configuration.h"

namespace ucudnn::planning {

// Returns the configuration of `n` images with at most `limit_bytes` of workspace that takes the
// least total time (ms); among equal times, one with fewer pieces. `measured` is any set of
// micro-configurations, in any order, of any sizes, with several engines for a size. Every
// micro-batch but the last is a multiple of `step`. None if `n` cannot be composed. Exact: no
// pruning loses the optimum.
std::optional<Configuration> OptimizeWorkspaceReuse(std::span<const MicroConfiguration> measured,
                                                    int n, int step, size_t limit_bytes);

// A micro-configuration, and whether it may be a division's Largest(), whose engine is reported to
// the caller.
struct Piece {
  const MicroConfiguration* micro = nullptr;
  bool may_be_largest = false;
};

// Runs OptimizeWorkspaceReuse on configurations whose largest piece may be Largest(), whatever
// workspace they need. None if none takes less than `below_ms`. If a faster piece of the same size
// may not be the largest, it is repeated behind the one that is. This function is exact too.
std::optional<Configuration> OptimizeWorkspaceReuseByLargest(std::span<const Piece> pieces, int n,
                                                             int step, double below_ms);

}  // namespace ucudnn::planning
