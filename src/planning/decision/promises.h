// Promises for programs that name an algorithm, and for kernels of a workspace plan. Pure
// functions.
#pragma once

#include <optional>
#include <vector>

#include "planning/decision/facts.h"
#include "planning/promise.h"

namespace ucudnn::planning {

// Returns whether `configuration`, of a legacy kernel, contains engines of the graph API.
bool UsesGraph(const Configuration& configuration);
// Returns whether `configuration`, of a legacy kernel, may run only after it was compared with the
// undivided engine of the caller's API.
bool NeedsTrust(const Configuration& configuration);

// Returns the candidate of `engine` for all `n` images; null if there is none.
const Candidate* FindUndivided(const std::vector<Candidate>& candidates, const EngineId& engine,
                               int n);

// The algorithm that a program names, and the demands on the engines that run the program's kernel.
struct NamedRequest {
  const ConvolutionProblem& problem;
  EngineId engine;  // empty: the program asks which engine to use
  NumericClass numeric = NumericClass::kDirect;
  size_t limit_bytes = 0;      // ceiling of the caller's workspace or, if `in_budget`, of ucudnn's
  bool deterministic = false;  // the user demands deterministic engines
  bool in_budget = false;      // ucudnn provides the workspace
};

// Returns a request that admits only engines that are as exact and as deterministic as the named
// engine. If no candidate shows whether the named engine is deterministic, it counts as
// deterministic.
PromiseRequest RequestForNamed(const std::vector<Candidate>& candidates, const NamedRequest& named);

// Returns the promise of the workspace plan's configuration. Returns none if the configuration is
// less exact or less deterministic than the named engine, or if no undivided engine can replace it.
// If `told` is given, the determinism that it reported counts instead of the named engine's
// determinism.
std::optional<Promise> PromiseOfWorkspacePlan(const ConfirmedLegacyKernel& confirmed,
                                              const NamedRequest& named,
                                              const std::optional<Promise>& told = {});

// Sets the time of `micro` to unknown unless the workspace plan's `configuration` contains `micro`.
// The time of an engine that the configuration does not contain is only its place in a list.
void ForgetOrder(const Configuration& configuration, MicroConfiguration& micro);

}  // namespace ucudnn::planning
