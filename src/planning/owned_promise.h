// Promises that need nothing of the caller's workspace: ucudnn brings what the plan needs, and
// where it has no memory to bring, an engine that needs none runs instead. Pure functions over
// measurements (docs/design.md, invariants 2 and 7).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "convolution/configuration.h"
#include "planning/promise.h"

namespace ucudnn::planning {

// The configurations that Workspace Division may choose from, by rising workspace and falling time;
// the first needs no workspace. They are undivided ones, and those of the desirable set and of
// `tilings` that are faster by kHysteresis than every undivided one in as much workspace. Empty
// when no engine of the caller's API runs undivided without workspace.
std::vector<Configuration> OwnedChoices(std::span<const Candidate> measured,
                                        const PromiseRequest& request,
                                        std::span<const Tiling> tilings = {});

// The fastest of OwnedChoices as a promise: workspace_bytes is 0, owned_bytes what the plan
// needs, at most the request's limit. `reported` is the undivided engine, with the plan's time.
std::optional<Promise> MakeOwnedPromise(std::span<const Candidate> measured,
                                        const PromiseRequest& request,
                                        std::span<const Tiling> tilings = {});

// The same promise for a given plan, whose pieces are among `measured`.
std::optional<Promise> MakeOwnedPromiseOf(const Configuration& configuration,
                                          std::span<const Candidate> measured,
                                          const PromiseRequest& request);

// What remains of such a promise without ucudnn's workspace: its undivided engine alone.
Promise UndividedAlone(Promise promise);

// What remains of a promise for calls that only the reported algorithm serves. Requires pieces of
// that algorithm, Promise::alone; what the caller's workspace does not hold, ucudnn brings.
Promise Alone(Promise promise);

}  // namespace ucudnn::planning
