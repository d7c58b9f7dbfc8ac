// Promises that need nothing of the caller's workspace. ucudnn provides the workspace that the plan
// needs; if ucudnn has none, an engine that needs no workspace runs instead. Pure functions over
// measurements (docs/design.md, invariants 2 and 7).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "convolution/configuration.h"
#include "planning/promise.h"

namespace ucudnn::planning {

// Returns the configurations that Workspace Division may choose from, in ascending order of
// workspace and descending order of time. The first needs no workspace. Each of the others is
// undivided, or is a division (of the desirable set or of `tilings`) that is faster by kHysteresis
// than every undivided engine that needs no more workspace. Empty if no engine of the caller's API
// runs undivided without workspace.
std::vector<Configuration> OwnedChoices(std::span<const Candidate> measured,
                                        const PromiseRequest& request,
                                        std::span<const Tiling> tilings = {});

// Returns the fastest of OwnedChoices as a promise; none if there are no choices. workspace_bytes
// is 0, and owned_bytes is the workspace of the plan, at most the request's limit. `reported` is
// the engine without workspace, with the plan's time.
std::optional<Promise> MakeOwnedPromise(std::span<const Candidate> measured,
                                        const PromiseRequest& request,
                                        std::span<const Tiling> tilings = {});

// Makes an owned promise for the plan `configuration`, whose pieces are among `measured`. Returns
// none if the request does not allow it, or if no engine of the caller's API runs undivided without
// workspace.
std::optional<Promise> MakeOwnedPromiseOf(const Configuration& configuration,
                                          std::span<const Candidate> measured,
                                          const PromiseRequest& request);

// Returns `promise` reduced to its undivided engine, which uses no workspace of ucudnn.
Promise UndividedAlone(Promise promise);

// Returns `promise` reduced to its `alone`, for calls that only the reported algorithm serves.
// ucudnn provides the workspace if `alone` needs more than the promised workspace. REQUIRES:
// `alone` has runs.
Promise Alone(Promise promise);

}  // namespace ucudnn::planning
