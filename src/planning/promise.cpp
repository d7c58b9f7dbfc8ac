#include "planning/promise.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "planning/workspace_reuse.h"

namespace ucudnn::planning {
namespace {

using Candidates = std::vector<const Candidate*>;

constexpr double kNever = std::numeric_limits<double>::infinity();

bool IsExactAs(NumericClass engine, NumericClass asked) {
  return engine == NumericClass::kDirect || engine == asked;
}

const Candidate* Find(const Candidates& candidates, const MicroConfiguration& micro) {
  for (const Candidate* candidate : candidates) {
    if (candidate->micro.engine == micro.engine) return candidate;
  }
  return nullptr;
}

NumericClass ClassOf(const Candidates& candidates, const MicroConfiguration& micro) {
  const Candidate* const candidate = Find(candidates, micro);
  return candidate != nullptr ? candidate->numeric : NumericClass::kDirect;
}

// Returns whether every piece is at least as exact and as deterministic as the largest one, whose
// engine is reported to the caller.
bool LargestIsLeast(const Configuration& configuration, const Candidates& allowed) {
  const NumericClass reported = ClassOf(allowed, configuration.Largest());
  return std::all_of(configuration.runs.begin(), configuration.runs.end(), [&](const Run& run) {
    return IsExactAs(ClassOf(allowed, run.micro), reported) &&
           (run.micro.deterministic || !configuration.Largest().deterministic);
  });
}

// Returns the fastest division whose largest piece `may_be_largest` accepts and for which
// LargestIsLeast holds; none if no such division takes less than `below_ms`. Solves Workspace Reuse
// once for each numeric class and determinism of the largest piece, with the pieces that may be
// combined with such a largest piece. Among equally fast divisions prefers the more exact one, then
// the deterministic one.
template <typename MayBeLargest>
std::optional<Configuration> BestDivision(const Candidates& allowed, const PromiseRequest& request,
                                          double below_ms, MayBeLargest may_be_largest) {
  std::optional<Configuration> best;
  for (const NumericClass numeric :
       {NumericClass::kDirect, NumericClass::kFft, NumericClass::kWinograd}) {
    for (const bool deterministic : {true, false}) {
      std::vector<Piece> pieces;
      bool has_largest = false;
      for (const Candidate* candidate : allowed) {
        if (!IsExactAs(candidate->numeric, numeric)) continue;
        if (deterministic && !candidate->micro.deterministic) continue;
        const bool is_largest = candidate->numeric == numeric &&
                                candidate->micro.deterministic == deterministic &&
                                may_be_largest(*candidate);
        has_largest |= is_largest;
        pieces.push_back({&candidate->micro, is_largest});
      }
      if (!has_largest) continue;
      std::optional<Configuration> configuration =
          OptimizeWorkspaceReuseByLargest(pieces, request.n, request.step, below_ms);
      if (!configuration) continue;
      below_ms = configuration->TimeMs();
      best = std::move(configuration);
    }
  }
  return best;
}

template <typename Serves>
const Candidate* Fastest(const Candidates& allowed, int n, Serves serves) {
  const Candidate* fastest = nullptr;
  for (const Candidate* candidate : allowed) {
    if (!candidate->micro.IsWhole(n) || !serves(*candidate)) continue;
    if (fastest == nullptr || candidate->micro.time_ms < fastest->micro.time_ms) {
      fastest = candidate;
    }
  }
  return fastest;
}

const Candidate* FastestNative(const Candidates& allowed, int n) {
  return Fastest(allowed, n, [](const Candidate& candidate) { return candidate.native; });
}

// Returns whether an undivided engine of class `undivided` may replace a plan whose largest piece
// is `largest`. The engine must be at least as exact as the plan. If the caller's API lacks the
// largest piece's engine, the program is told the undivided engine. So this engine must not be more
// exact than the plan, either.
bool Replaces(NumericClass undivided, const Candidate& largest) {
  return largest.native ? IsExactAs(undivided, largest.numeric) : undivided == largest.numeric;
}

// Says whether a plan with a given largest piece can be promised, because an undivided engine of
// the caller's API can replace the plan.
class Promisable {
 public:
  Promisable(const Candidates& allowed, int n) {
    for (const Candidate* candidate : allowed) {
      if (candidate->micro.IsWhole(n) && candidate->native) {
        undivided_.insert(candidate->numeric);
      }
    }
  }

  bool operator()(const Candidate& largest) const {
    return std::any_of(undivided_.begin(), undivided_.end(),
                       [&](NumericClass numeric) { return Replaces(numeric, largest); });
  }

 private:
  std::set<NumericClass> undivided_;
};

// Returns the fastest undivided engine that can be promised although the caller's API lacks it.
const Candidate* FastestForeign(const Candidates& allowed, int n) {
  const Promisable promisable(allowed, n);
  return Fastest(allowed, n, [&](const Candidate& candidate) {
    return !candidate.native && promisable(candidate);
  });
}

Baselines BaselinesOf(const Candidates& allowed, int n) {
  Baselines fastest;
  const Candidate* const native = FastestNative(allowed, n);
  if (native == nullptr) return fastest;
  fastest.own_api = fastest.any_api = native->micro;
  const Candidate* const foreign = FastestForeign(allowed, n);
  if (foreign != nullptr && foreign->micro.time_ms < native->micro.time_ms) {
    fastest.any_api = foreign->micro;
  }
  return fastest;
}

// Returns the fastest division into several pieces that can be promised; none if no such division
// takes less than `below_ms`.
std::optional<Configuration> BestDivided(const Candidates& allowed, const PromiseRequest& request,
                                         double below_ms) {
  const Promisable promisable(allowed, request.n);
  return BestDivision(allowed, request, below_ms, [&](const Candidate& largest) {
    return !largest.micro.IsWhole(request.n) && promisable(largest);
  });
}

// Returns the candidate that replaces a plan of `plan_bytes`: the fastest undivided engine of the
// caller's API within these bytes or, if there is none, the undivided engine of the caller's API
// with the least workspace. Considers only candidates that `serves` accepts; null if there are
// none.
template <typename Serves>
const Candidate* UndividedFor(const Candidates& allowed, int n, size_t plan_bytes, Serves serves) {
  const auto better = [&](const Candidate& a, const Candidate& b) {
    const bool a_inside = a.micro.workspace_bytes <= plan_bytes;
    const bool b_inside = b.micro.workspace_bytes <= plan_bytes;
    if (a_inside != b_inside) return a_inside;
    if (a_inside) return a.micro.time_ms < b.micro.time_ms;
    return a.micro.workspace_bytes < b.micro.workspace_bytes;
  };
  const Candidate* best = nullptr;
  for (const Candidate* candidate : allowed) {
    if (!candidate->micro.IsWhole(n) || !candidate->native || !serves(*candidate)) continue;
    if (best == nullptr || better(*candidate, *best)) best = candidate;
  }
  return best;
}

// Returns the promise of `configuration`, whose largest piece is `largest_candidate`. The promised
// workspace is the plan's workspace or, if no undivided engine fits that, the least workspace of an
// undivided engine. If only a nondeterministic engine can replace a deterministic plan, the plan is
// promised as nondeterministic. Returns none if no undivided engine within the limit is as exact as
// the plan.
std::optional<Promise> PromiseOf(const Configuration& configuration,
                                 const Candidate& largest_candidate, const Candidates& allowed,
                                 const PromiseRequest& request) {
  const MicroConfiguration& largest = largest_candidate.micro;
  const size_t plan_bytes = configuration.WorkspaceBytes();
  bool deterministic = configuration.Deterministic();
  const auto serves = [&](const Candidate& candidate) {
    if (deterministic && !candidate.micro.deterministic) return false;
    return Replaces(candidate.numeric, largest_candidate);
  };
  const Candidate* undivided = UndividedFor(allowed, request.n, plan_bytes, serves);
  if (undivided == nullptr && deterministic) {
    deterministic = false;
    undivided = UndividedFor(allowed, request.n, plan_bytes, serves);
  }
  if (undivided == nullptr) return std::nullopt;
  Promise promise;
  promise.workspace_bytes = std::max(plan_bytes, undivided->micro.workspace_bytes);
  promise.reported = {largest_candidate.native ? largest.engine : undivided->micro.engine,
                      request.n, configuration.TimeMs(), promise.workspace_bytes, deterministic};
  promise.configuration = configuration;
  promise.undivided = undivided->micro;
  promise.baselines = BaselinesOf(allowed, request.n);
  promise.limit_bytes = request.limit_bytes;
  assert(promise.workspace_bytes <= request.limit_bytes);
  return promise;
}

// Returns the promise of `configuration`, whose pieces are all among `allowed`.
std::optional<Promise> PromiseOf(const Configuration& configuration, const Candidates& allowed,
                                 const PromiseRequest& request) {
  const Candidate* const largest = Find(allowed, configuration.Largest());
  assert(largest != nullptr);
  return PromiseOf(configuration, *largest, allowed, request);
}

// Returns the fastest allowed candidate of `kind` that is no coarser than `coarsest`; null if there
// is none. The result does not depend on the order of the candidates.
const Candidate* FastestOf(const Tiling::Kind& kind, const PromiseRequest& request,
                           NumericClass coarsest) {
  const auto costs = [](const MicroConfiguration& micro) {
    return std::tie(micro.time_ms, micro.workspace_bytes, micro.engine);
  };
  const Candidate* fastest = nullptr;
  for (const Candidate* candidate : AllowedCandidates(kind.candidates, request)) {
    if (!IsExactAs(candidate->numeric, coarsest)) continue;
    if (fastest == nullptr || costs(candidate->micro) < costs(fastest->micro)) fastest = candidate;
  }
  return fastest;
}

// Returns the promise of the fastest tiles that are no coarser than `coarsest`.
std::optional<Promise> PromiseOfTiles(std::span<const Tiling> tilings, const Candidates& allowed,
                                      const PromiseRequest& request, NumericClass coarsest) {
  auto configuration = FastestTiles(tilings, request, coarsest);
  if (!configuration) return std::nullopt;
  // The program will ask the library about the reported engine. The library knows neither tiles nor
  // engines that the program's API lacks. So the largest piece is passed as not native, and the
  // undivided engine is reported.
  return PromiseOf(*configuration, {configuration->Largest(), coarsest, false}, allowed, request);
}

}  // namespace

std::vector<const Candidate*> AllowedCandidates(std::span<const Candidate> measured,
                                                const PromiseRequest& request) {
  Candidates allowed;
  for (const Candidate& candidate : measured) {
    // Other programs may have written the store. A time that is not finite cannot be compared.
    if (!std::isfinite(candidate.micro.time_ms) || candidate.micro.time_ms < 0) continue;
    if (candidate.micro.workspace_bytes > request.limit_bytes) continue;
    if (request.deterministic && !candidate.micro.deterministic) continue;
    if (request.chosen && !IsExactAs(candidate.numeric, *request.chosen)) continue;
    allowed.push_back(&candidate);
  }
  return allowed;
}

PromiseRequest RequestFor(const ConvolutionProblem& problem, size_t limit_bytes,
                          bool deterministic) {
  PromiseRequest request;
  request.n = problem.n;
  request.step = LegalStep(problem);
  request.limit_bytes = limit_bytes;
  request.deterministic = deterministic;
  return request;
}

std::optional<Promise> MakePromise(std::span<const Candidate> measured,
                                   const PromiseRequest& request) {
  const Candidates allowed = AllowedCandidates(measured, request);
  const Candidate* const native = FastestNative(allowed, request.n);
  if (native == nullptr) return std::nullopt;
  // A division must gain kHysteresis over the best undivided engine. If the caller's API lacks that
  // engine, the engine must itself gain kHysteresis over the best engine of the caller's API. Only
  // engines and divisions that can be promised are considered, so that one that cannot be promised
  // does not hide the next best one.
  const Candidate* const foreign = FastestForeign(allowed, request.n);
  const bool foreign_gains =
      foreign != nullptr && foreign->micro.time_ms < (1 - kHysteresis) * native->micro.time_ms;
  const Candidate* const fastest = foreign_gains ? foreign : native;
  const std::optional<Configuration> division =
      BestDivided(allowed, request, (1 - kHysteresis) * fastest->micro.time_ms);
  return PromiseOf(division.value_or(Configuration{{{fastest->micro, 1}}}), allowed, request);
}

std::optional<double> FastestPromisableMs(std::span<const Candidate> measured,
                                          const PromiseRequest& request) {
  const Candidates allowed = AllowedCandidates(measured, request);
  const MicroConfiguration fastest = BaselinesOf(allowed, request.n).any_api;
  if (fastest.engine.empty()) return std::nullopt;
  const double fastest_ms = fastest.time_ms;
  const std::optional<Configuration> division = BestDivided(allowed, request, fastest_ms);
  return division ? division->TimeMs() : fastest_ms;
}

std::optional<Configuration> FastestTiles(std::span<const Tiling> tilings,
                                          const PromiseRequest& request, NumericClass coarsest) {
  std::optional<Configuration> best;
  for (const Tiling& tiling : tilings) {
    Configuration configuration{{}, tiling.grid};
    for (const Tiling::Kind& kind : tiling.kinds) {
      const Candidate* const fastest = FastestOf(kind, request, coarsest);
      if (fastest != nullptr) configuration.runs.push_back({fastest->micro, kind.count});
    }
    if (configuration.runs.empty() || configuration.runs.size() < tiling.kinds.size()) continue;
    const bool better =
        !best || configuration.TimeMs() < best->TimeMs() ||
        (configuration.TimeMs() == best->TimeMs() && configuration.Pieces() < best->Pieces());
    if (better) best = std::move(configuration);
  }
  return best;
}

std::optional<Promise> OrInTiles(std::optional<Promise> promise, std::span<const Tiling> tilings,
                                 std::span<const Candidate> measured,
                                 const PromiseRequest& request) {
  const Candidates allowed = AllowedCandidates(measured, request);
  for (const NumericClass coarsest :
       {NumericClass::kDirect, NumericClass::kFft, NumericClass::kWinograd}) {
    std::optional<Promise> in_tiles = PromiseOfTiles(tilings, allowed, request, coarsest);
    if (!in_tiles) continue;
    const double time_ms = in_tiles->configuration.TimeMs();
    const double share = promise && promise->configuration.IsTiled() ? 1 : 1 - kHysteresis;
    if (!promise || time_ms < share * promise->configuration.TimeMs()) promise = in_tiles;
  }
  return promise;
}

bool Allows(std::span<const Candidate> measured, const PromiseRequest& request,
            const Configuration& configuration) {
  const Candidates allowed = AllowedCandidates(measured, request);
  return std::all_of(configuration.runs.begin(), configuration.runs.end(), [&](const Run& run) {
    return std::any_of(allowed.begin(), allowed.end(), [&](const Candidate* candidate) {
      return candidate->micro.engine == run.micro.engine &&
             candidate->micro.micro_batch == run.micro.micro_batch &&
             candidate->micro.tile == run.micro.tile;
    });
  });
}

std::optional<Promise> MakePromiseOf(const Configuration& configuration,
                                     std::span<const Candidate> measured,
                                     const PromiseRequest& request) {
  const Candidates allowed = AllowedCandidates(measured, request);
  if (!Allows(measured, request, configuration) || !LargestIsLeast(configuration, allowed))
    return std::nullopt;
  return PromiseOf(configuration, allowed, request);
}

std::optional<Configuration> FastestDivision(std::span<const Candidate> measured,
                                             const PromiseRequest& request) {
  return BestDivision(AllowedCandidates(measured, request), request, kNever,
                      [](const Candidate&) { return true; });
}

std::optional<MicroConfiguration> FastestUndivided(std::span<const Candidate> measured,
                                                   const PromiseRequest& request) {
  const Candidate* const fastest = FastestNative(AllowedCandidates(measured, request), request.n);
  if (fastest == nullptr) return std::nullopt;
  return fastest->micro;
}

Baselines FindBaselines(std::span<const Candidate> measured, const PromiseRequest& request) {
  return BaselinesOf(AllowedCandidates(measured, request), request.n);
}

size_t AssuredBytes(const Promise& promise) {
  const size_t alone = promise.alone.runs.empty() ? 0 : promise.alone.WorkspaceBytes();
  return std::max(alone > promise.workspace_bytes ? alone : 0,
                  promise.undivided.engine.empty() ? promise.owned_bytes : 0);
}

std::optional<Promise> PiecesOf(const EngineId& engine, std::span<const Candidate> measured,
                                const PromiseRequest& request) {
  std::vector<MicroConfiguration> usable;
  for (const Candidate* candidate : AllowedCandidates(measured, request)) {
    // `measured` may come from a workspace plan and contain tiles, which are not pieces of whole
    // images.
    const bool images = candidate->micro.tile == TileLengths{};
    if (candidate->micro.engine == engine && images) usable.push_back(candidate->micro);
  }
  std::optional<Configuration> configuration =
      OptimizeWorkspaceReuse(usable, request.n, request.step, request.limit_bytes);
  if (!configuration) return std::nullopt;
  Promise promise;
  promise.workspace_bytes = configuration->WorkspaceBytes();
  promise.reported = {engine, request.n, configuration->TimeMs(), promise.workspace_bytes,
                      configuration->Deterministic()};
  promise.configuration = std::move(*configuration);
  promise.limit_bytes = request.limit_bytes;
  return promise;
}

}  // namespace ucudnn::planning
