// Promises that need nothing of the caller's workspace. ucudnn brings the workspace that the plan
// needs; if it has no memory to bring, an engine that needs none runs instead. Pure functions over
// measurements (docs/design.md, invariants 2 and 7).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "convolution/configuration.h"
#include "planning/promise.h"

namespace ucudnn::planning {

// Returns the configurations that Workspace Division may choose from, in ascending order of
// workspace and descending order of time; the first needs no workspace. They are undivided ones,
// and those of the desirable set and of `tilings` that are faster by kHysteresis than every
// undivided one in as much workspace. Empty if no engine of the caller's API runs undivided without
// workspace.
std::vector<Configuration> OwnedChoices(std::span<const Candidate> measured,
                                        const PromiseRequest& request,
                                        std::span<const Tiling> tilings = {});

// Returns the fastest of OwnedChoices as a promise: workspace_bytes is 0, and owned_bytes is the
// workspace of the plan, at most the request's limit. `reported` is the undivided engine, with the
// plan's time.
std::optional<Promise> MakeOwnedPromise(std::span<const Candidate> measured,
                                        const PromiseRequest& request,
                                        std::span<const Tiling> tilings = {});

// Makes an owned promise for a given plan, whose pieces are among `measured`.
std::optional<Promise> MakeOwnedPromiseOf(const Configuration& configuration,
                                          std::span<const Candidate> measured,
                                          const PromiseRequest& request);

// Reduces a promise to its undivided engine, which needs none of ucudnn's workspace.
Promise UndividedAlone(Promise promise);

// Reduces a promise to Promise::alone, pieces of the reported algorithm, for calls that only this
// algorithm serves. ucudnn brings the workspace that exceeds the caller's. REQUIRES: the promise
// has such pieces.
Promise Alone(Promise promise);

}  // namespace ucudnn::planning
