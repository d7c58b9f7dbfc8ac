// Promises for programs that name an algorithm, and for kernels of a workspace plan. Pure
// functions.
#pragma once

#include <optional>
#include <vector>

#include "planning/decision/facts.h"
#include "planning/promise.h"

namespace ucudnn::planning {

// Returns whether `configuration`, of a legacy kernel, has engines of the graph API.
bool UsesGraph(const Configuration& configuration);
// Returns whether `configuration`, of a legacy kernel, runs only after it was compared with the
// undivided engine of the caller's API.
bool NeedsTrust(const Configuration& configuration);

// Returns the candidate that runs `engine` on all `n` images; null if that was not measured.
const Candidate* FindUndivided(const std::vector<Candidate>& candidates, const EngineId& engine,
                               int n);

// The algorithm that a program names, and the conditions under which it does.
struct NamedRequest {
  const ConvolutionProblem& problem;
  EngineId engine;  // empty: the program names none, and will get one as an answer
  NumericClass numeric = NumericClass::kDirect;
  size_t limit_bytes = 0;      // of the caller's workspace or, `in_budget`, of ucudnn's
  bool deterministic = false;  // the user demands it
  bool in_budget = false;      // ucudnn brings the workspace
};

// Makes a request that only engines meet which are as exact and as deterministic as the named one.
// If no candidate tells whether the named engine is deterministic, it is taken to be.
PromiseRequest RequestForNamed(const std::vector<Candidate>& candidates, const NamedRequest& named);

// Returns the promise of the configuration in the file, or none if that configuration is less exact
// or less deterministic than the named engine. If `told` is given, its reported determinism counts
// instead.
std::optional<Promise> PromiseOfWorkspacePlan(const ConfirmedLegacyKernel& confirmed,
                                              const NamedRequest& named,
                                              const std::optional<Promise>& told = {});

// Makes the time of `micro` unknown unless `configuration` of the file contains it: other times are
// only an order.
void ForgetOrder(const Configuration& configuration, MicroConfiguration& micro);

}  // namespace ucudnn::planning
