// Workspace Reuse (WR): the fastest division of one kernel's mini-batch whose micro-batches run one
// after the other in the same workspace. Pure functions. Source: mu-cuDNN, section III-B.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "convolution/configuration.h"

namespace ucudnn::planning {

// Returns the fastest configuration of `n` images that needs at most `limit_bytes` of workspace; if
// several are equally fast, one with the fewest pieces. `measured` holds micro-configurations in
// any order, of any sizes, and of any number of engines for a size. Every micro-batch but the last
// is a multiple of `step`. Returns none if no micro-batches add up to `n`. The result is exact: no
// pruning loses the optimum.
std::optional<Configuration> OptimizeWorkspaceReuse(std::span<const MicroConfiguration> measured,
                                                    int n, int step, size_t limit_bytes);

// A micro-configuration, and whether it may be the Largest() piece of a division. The engine of the
// Largest() piece is reported to the caller.
struct Piece {
  const MicroConfiguration* micro = nullptr;
  bool may_be_largest = false;
};

// Like OptimizeWorkspaceReuse, but workspace is not limited, and `may_be_largest` must be true for
// the Largest() piece. Returns none if no such division takes less than `below_ms`. The pieces
// after the Largest() piece may have the same size and a faster engine for which `may_be_largest`
// is false. The result is exact.
std::optional<Configuration> OptimizeWorkspaceReuseByLargest(std::span<const Piece> pieces, int n,
                                                             int step, double below_ms);

}  // namespace ucudnn::planning
