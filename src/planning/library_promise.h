// Promises of no workspace at all: the library brings what the plan needs, and an engine that needs
// none takes the plan's place wherever the library's workspace is not to be had. Pure functions
// over measurements; DESIGN's invariants 2 and 7.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "convolution/configuration.h"
#include "planning/promise.h"

namespace ucudnn::planning {

// The configurations that Workspace Division may choose from, by rising workspace and falling time:
// undivided ones, and those of the desirable set that gain what a running process divides for
// (kHysteresis) over every undivided one in as much workspace. The first needs none. Empty when no
// engine of the caller's API runs undivided without workspace.
std::vector<Configuration> LibraryChoices(std::span<const Candidate> measured,
                                          const PromiseRequest& request);

// The fastest of LibraryChoices as a promise: workspace_bytes is 0, library_bytes what the plan
// needs, at most the request's limit. `reported` is `undivided`, in the plan's time.
std::optional<Promise> MakeLibraryPromise(std::span<const Candidate> measured,
                                          const PromiseRequest& request);

// The same of a given plan, whose pieces are among `measured`.
std::optional<Promise> MakeLibraryPromiseOf(const Configuration& plan,
                                            std::span<const Candidate> measured,
                                            const PromiseRequest& request);

// What is left of such a promise without the library's workspace.
Promise Whole(Promise promise);

}  // namespace ucudnn::planning
