#include "planning/owned_promise.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "planning/desirable_set.h"

namespace ucudnn::planning {
namespace {

using Candidates = std::vector<const Candidate*>;
enum class Whose { kAny, kNative };

// Returns the fastest candidate that runs the whole mini-batch within `workspace_bytes`; null if
// there is none. If `whose` is kNative, the candidate must be of the caller's API.
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

// Returns, for every workspace size that the request allows, the fastest tiles of each numeric
// class. Smaller sizes come first.
std::vector<Configuration> DesirableTilings(std::span<const Tiling> tilings,
                                            PromiseRequest request) {
  std::set<size_t> sizes;
  for (const Tiling& tiling : tilings) {
    for (const Tiling::Kind& kind : tiling.kinds) {
      for (const Candidate* candidate : AllowedCandidates(kind.candidates, request)) {
        sizes.insert(candidate->micro.workspace_bytes);
      }
    }
  }
  std::vector<Configuration> found;
  for (const size_t bytes : sizes) {
    request.limit_bytes = bytes;
    for (const NumericClass coarsest :
         {NumericClass::kDirect, NumericClass::kFft, NumericClass::kWinograd}) {
      auto tiles = FastestTiles(tilings, request, coarsest);
      if (tiles) found.push_back(std::move(*tiles));
    }
  }
  return found;
}

// Returns the promise of `configuration`, which the request must allow; none if no engine of the
// caller's API runs undivided without workspace.
std::optional<Promise> OwnedPromiseOf(const Configuration& configuration, const Candidates& allowed,
                                      const PromiseRequest& request) {
  const Candidate* const without = FastestWhole(allowed, request.n, 0, Whose::kNative);
  if (without == nullptr) return std::nullopt;
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

}  // namespace

std::vector<Configuration> OwnedChoices(std::span<const Candidate> measured,
                                        const PromiseRequest& request,
                                        std::span<const Tiling> tilings) {
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
  std::vector<Configuration> divided =
      DesirableSet(rows, request.n, request.step, request.limit_bytes);
  for (Configuration& tiles : DesirableTilings(tilings, request)) {
    divided.push_back(std::move(tiles));
  }
  for (Configuration& one : divided) {
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
                                        const PromiseRequest& request,
                                        std::span<const Tiling> tilings) {
  const std::vector<Configuration> choices = OwnedChoices(measured, request, tilings);
  if (choices.empty()) return std::nullopt;
  return OwnedPromiseOf(choices.back(), AllowedCandidates(measured, request), request);
}

std::optional<Promise> MakeOwnedPromiseOf(const Configuration& configuration,
                                          std::span<const Candidate> measured,
                                          const PromiseRequest& request) {
  if (!Allows(measured, request, configuration)) return std::nullopt;
  return OwnedPromiseOf(configuration, AllowedCandidates(measured, request), request);
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
