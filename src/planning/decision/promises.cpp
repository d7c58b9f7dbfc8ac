#include "planning/decision/promises.h"

#include <algorithm>

#include "planning/owned_promise.h"

namespace ucudnn::planning {

bool UsesGraph(const Configuration& configuration) {
  return std::any_of(configuration.runs.begin(), configuration.runs.end(),
                     [](const Run& run) { return run.micro.engine.of_graph_api(); });
}

bool NeedsTrust(const Configuration& configuration) {
  return configuration.Pieces() > 1 || UsesGraph(configuration);
}

const Candidate* FindUndivided(const std::vector<Candidate>& candidates, const EngineId& engine,
                               int n) {
  const auto found =
      std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
        return candidate.micro.engine == engine && candidate.micro.IsWhole(n);
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

void ForgetOrder(const Configuration& configuration, MicroConfiguration& micro) {
  const auto same = [&](const Run& run) { return run.micro == micro; };
  if (std::none_of(configuration.runs.begin(), configuration.runs.end(), same))
    micro.time_ms = kUnknownTime;
}

namespace {

// Reports the engine of the plan's largest piece if that engine supports the whole mini-batch,
// otherwise the undivided engine: the program will ask the library for the reported engine's
// workspace on the whole mini-batch. Returns false if the undivided engine is reported and has
// another numeric class than the plan's largest piece.
bool ReportLargest(const ConfirmedLegacyKernel& confirmed, int n, Promise& promise) {
  const EngineId& largest = confirmed.configuration.Largest().engine;
  const Candidate* const whole = FindUndivided(confirmed.candidates, largest, n);
  if (whole != nullptr && whole->native) {
    promise.reported.engine = largest;
    return true;
  }
  const Candidate* const undivided =
      FindUndivided(confirmed.candidates, promise.undivided.engine, n);
  promise.reported.engine = promise.undivided.engine;
  return undivided != nullptr && undivided->numeric == confirmed.largest;
}

}  // namespace

std::optional<Promise> PromiseOfWorkspacePlan(const ConfirmedLegacyKernel& confirmed,
                                              const NamedRequest& named,
                                              const std::optional<Promise>& told) {
  NamedRequest within = named;
  within.limit_bytes = std::min(named.limit_bytes, confirmed.limit_bytes);
  const bool is_named = !named.engine.empty();
  PromiseRequest request = is_named
                               ? RequestForNamed(confirmed.candidates, within)
                               : RequestFor(named.problem, within.limit_bytes, named.deterministic);
  // If a promise was told, pieces and the engine that replaces them must be as deterministic as
  // that promise, not as the algorithm that is named now.
  if (told) request.deterministic = named.deterministic || told->reported.deterministic;
  if (!is_named) request.chosen = confirmed.largest;
  if (!is_named && named.in_budget)
    request.deterministic |= confirmed.configuration.Deterministic();
  std::optional<Promise> promise =
      named.in_budget ? MakeOwnedPromiseOf(confirmed.configuration, confirmed.candidates, request)
                      : MakePromiseOf(confirmed.configuration, confirmed.candidates, request);
  if (!promise) return std::nullopt;
  promise->of_workspace_plan = true;
  if (named.in_budget) {
    promise->reported.deterministic &= confirmed.configuration.Deterministic();
  }
  if (!is_named && !ReportLargest(confirmed, named.problem.n, *promise)) return std::nullopt;
  ForgetOrder(confirmed.configuration, promise->undivided);
  ForgetOrder(confirmed.configuration, promise->baselines.own_api);
  ForgetOrder(confirmed.configuration, promise->baselines.any_api);
  return promise;
}

}  // namespace ucudnn::planning
