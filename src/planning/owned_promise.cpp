#include "planning/owned_promise.h"

#include <algorithm>
#include <cassert>

#include "planning/desirable_set.h"

namespace ucudnn::planning {
namespace {

using Candidates = std::vector<const Candidate*>;
enum class Whose { kAny, kNative };

// The fastest candidate that takes the whole mini-batch within `workspace_bytes`; null when there
// is none.
const Candidate* FastestWhole(const Candidates& allowed, int n, size_t workspace_bytes,
                              Whose whose) {
  const Candidate* fastest = nullptr;
  for (const Candidate* candidate : allowed) {
    const MicroConfiguration& micro = candidate->micro;
    if (!micro.IsWhole(n) || micro.workspace_bytes > workspace_bytes) continue;
    if (whose == Whose::kNative && !candidate->native) continue;
    if (fastest == nullptr || micro.time_ms < fastest->micro.time_ms) fastest = candidate;
  }
  return fastest;
}

bool Gains(double time_ms, const Candidate* over) {
  return over == nullptr || time_ms < (1 - kHysteresis) * over->micro.time_ms;
}

}  // namespace

std::vector<Configuration> OwnedChoices(std::span<const Candidate> measured,
                                        const PromiseRequest& request) {
  const Candidates allowed = AllowedCandidates(measured, request);
  const Candidate* const without = FastestWhole(allowed, request.n, 0, Whose::kNative);
  if (without == nullptr) return {};
  std::vector<MicroConfiguration> rows, undivided_rows;
  for (const Candidate* candidate : allowed) {
    const MicroConfiguration& micro = candidate->micro;
    rows.push_back(micro);
    if (!micro.IsWhole(request.n)) continue;
    const bool serves = candidate->native ||
                        Gains(micro.time_ms, FastestWhole(allowed, request.n, micro.workspace_bytes,
                                                          Whose::kNative));
    if (serves) undivided_rows.push_back(micro);
  }
  std::vector<Configuration> found =
      DesirableSet(undivided_rows, request.n, request.step, request.limit_bytes);
  for (Configuration& one : DesirableSet(rows, request.n, request.step, request.limit_bytes)) {
    const Candidate* const undivided =
        FastestWhole(allowed, request.n, one.WorkspaceBytes(), Whose::kAny);
    if (one.Pieces() > 1 && Gains(one.TimeMs(), undivided)) found.push_back(std::move(one));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.WorkspaceBytes() < b.WorkspaceBytes();
  });
  std::vector<Configuration> choices = {{{{without->micro, 1}}}};
  for (Configuration& one : found) {
    if (one.TimeMs() >= choices.back().TimeMs()) continue;
    if (one.WorkspaceBytes() == choices.back().WorkspaceBytes()) choices.pop_back();
    choices.push_back(std::move(one));
  }
  assert(choices.front().WorkspaceBytes() == 0);
  return choices;
}

std::optional<Promise> MakeOwnedPromise(std::span<const Candidate> measured,
                                        const PromiseRequest& request) {
  const std::vector<Configuration> choices = OwnedChoices(measured, request);
  if (choices.empty()) return std::nullopt;
  return MakeOwnedPromiseOf(choices.back(), measured, request);
}

std::optional<Promise> MakeOwnedPromiseOf(const Configuration& configuration,
                                          std::span<const Candidate> measured,
                                          const PromiseRequest& request) {
  const Candidates allowed = AllowedCandidates(measured, request);
  const Candidate* const without = FastestWhole(allowed, request.n, 0, Whose::kNative);
  if (without == nullptr || !Allows(measured, request, configuration)) return std::nullopt;
  Promise promise;
  promise.undivided = without->micro;
  const auto fastest = [&](Whose whose) {
    return FastestWhole(allowed, request.n, request.limit_bytes, whose)->micro;
  };
  promise.baselines = {fastest(Whose::kNative), fastest(Whose::kAny)};
  promise.configuration = configuration;
  promise.reported = promise.undivided;
  promise.reported.time_ms = promise.configuration.TimeMs();
  promise.limit_bytes = request.limit_bytes;
  promise.owned_bytes = promise.configuration.WorkspaceBytes();
  return promise;
}

Promise UndividedAlone(Promise promise) {
  promise.configuration = {{{promise.undivided, 1}}};
  promise.owned_bytes = 0;
  return promise;
}

Promise Alone(Promise promise) {
  assert(!promise.alone.runs.empty());
  promise.configuration = promise.alone;
  promise.undivided = {};
  const size_t bytes = promise.configuration.WorkspaceBytes();
  promise.owned_bytes = bytes > promise.workspace_bytes ? bytes : 0;
  return promise;
}

}  // namespace ucudnn::planning
