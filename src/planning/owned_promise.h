// Promises that use none of the caller's workspace. ucudnn provides the workspace that the plan
// needs. If ucudnn has none at a call, an engine that needs no workspace runs instead. Pure
// functions over measurements (docs/design.md, invariants 2 and 7).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "convolution/configuration.h"
#include "planning/promise.h"

namespace ucudnn::planning {

// Returns the configurations that Workspace Division may choose from, in ascending order of
// workspace and descending order of time. The first one needs no workspace. Each later one is
// undivided, or is a division (of the desirable set or of `tilings`) that is faster by kHysteresis
// than every undivided engine that needs no more workspace than the division. Empty if no engine of
// the caller's API runs undivided without workspace.
std::vector<Configuration> OwnedChoices(std::span<const Candidate> measured,
                                        const PromiseRequest& request,
                                        std::span<const Tiling> tilings = {});

// Returns the fastest of OwnedChoices as a promise; none if there are no choices. workspace_bytes
// is 0, and owned_bytes is the workspace of the plan, at most the request's limit. `reported` is
// the engine that runs without workspace, but has the plan's time.
std::optional<Promise> MakeOwnedPromise(std::span<const Candidate> measured,
                                        const PromiseRequest& request,
                                        std::span<const Tiling> tilings = {});

// Returns the promise of the plan `configuration`, whose pieces are among `measured`. Returns none
// if the request does not allow the plan, or if no engine of the caller's API runs undivided
// without workspace.
std::optional<Promise> MakeOwnedPromiseOf(const Configuration& configuration,
                                          std::span<const Candidate> measured,
                                          const PromiseRequest& request);

// Returns `promise` with its undivided engine in place of its plan, and without workspace of
// ucudnn.
Promise UndividedAlone(Promise promise);

// Returns `promise` with the pieces `promise.alone` as its only plan, for calls that only the
// reported algorithm supports. ucudnn provides the workspace if these pieces need more than the
// promised workspace. REQUIRES: `promise.alone` has runs.
Promise Alone(Promise promise);

}  // namespace ucudnn::planning
