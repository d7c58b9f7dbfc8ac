#include "planning/decision/promises.h"

#include <algorithm>

#include "planning/library_promise.h"

namespace ucudnn::planning {

bool UsesGraph(const Configuration& plan) {
  return std::any_of(plan.runs.begin(), plan.runs.end(),
                     [](const Run& run) { return run.micro.engine.of_graph_api(); });
}

const Candidate* FindUndivided(const std::vector<Candidate>& candidates, const EngineId& engine,
                               int n) {
  const auto found =
      std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
        return candidate.micro.engine == engine && candidate.micro.micro_batch == n;
      });
  return found != candidates.end() ? &*found : nullptr;
}

PromiseRequest RequestForNamed(const std::vector<Candidate>& candidates,
                               const NamedRequest& named) {
  PromiseRequest request = RequestFor(named.problem, named.limit_bytes, named.deterministic);
  request.chosen = named.numeric;
  request.deterministic |=
      std::none_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
        return candidate.micro.engine == named.engine && !candidate.micro.deterministic;
      });
  return request;
}

void ForgetOrder(const Configuration& plan, MicroConfiguration& micro) {
  const auto same = [&](const Run& run) { return run.micro == micro; };
  if (std::none_of(plan.runs.begin(), plan.runs.end(), same)) micro.time_ms = kUnknownTime;
}

std::optional<Promise> PromiseOfFile(const PinnedChoice& pinned, const NamedRequest& named,
                                     const std::optional<Promise>& told) {
  NamedRequest within = named;
  within.limit_bytes = std::min(named.limit_bytes, pinned.limit_bytes);
  const bool is_named = !named.engine.empty();
  PromiseRequest request = is_named
                               ? RequestForNamed(pinned.candidates, within)
                               : RequestFor(named.problem, within.limit_bytes, named.deterministic);
  // The caller was told of an engine that need not be deterministic, so its pieces need not be
  // either.
  if (told && !told->reported.deterministic) request.deterministic = named.deterministic;
  if (!is_named) request.chosen = pinned.lead;
  if (!is_named && named.in_budget) request.deterministic |= pinned.plan.Deterministic();
  std::optional<Promise> promise =
      named.in_budget ? MakeLibraryPromiseOf(pinned.plan, pinned.candidates, request)
                      : MakePromiseOf(pinned.plan, pinned.candidates, request);
  if (!promise) return std::nullopt;
  promise->pinned = true;
  if (named.in_budget) {
    if (!is_named) promise->reported.engine = pinned.plan.Largest().engine;
    promise->reported.deterministic &= pinned.plan.Deterministic();
  }
  ForgetOrder(pinned.plan, promise->undivided);
  ForgetOrder(pinned.plan, promise->baselines.own_api);
  ForgetOrder(pinned.plan, promise->baselines.any_api);
  return promise;
}

}  // namespace ucudnn::planning
