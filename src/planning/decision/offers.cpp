#include "planning/decision/offers.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "planning/owned_promise.h"

namespace ucudnn::planning {
namespace {

// The number of CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, the only algorithm that supports
// an identity activation.
constexpr int kServesIdentity = 1;

bool MayServeIdentity(Operation operation, const EngineId& engine) {
  const EngineId::Legacy* const legacy = engine.legacy();
  return operation == Operation::kForward && legacy != nullptr &&
         legacy->algorithm == kServesIdentity;
}

// Returns the promise of pieces that all run `engine` and need the least workspace; none if no such
// pieces fit the request.
std::optional<Promise> LeastPieces(const EngineId& engine, const std::vector<Candidate>& candidates,
                                   PromiseRequest request) {
  std::vector<size_t> sizes;
  for (const Candidate& candidate : candidates) {
    const size_t bytes = candidate.micro.workspace_bytes;
    if (candidate.micro.engine == engine && bytes <= request.limit_bytes) sizes.push_back(bytes);
  }
  std::sort(sizes.begin(), sizes.end());
  for (const size_t bytes : sizes) {
    request.limit_bytes = bytes;
    if (auto pieces = PiecesOf(engine, candidates, request)) return pieces;
  }
  return std::nullopt;
}

// Returns a promise that pieces of `engine` keep alone, in workspace that is set aside from a
// budget. The limit of `request` is the size of the budget.
std::optional<Promise> AssuredPieces(const EngineId& engine,
                                     const std::vector<Candidate>& candidates,
                                     PromiseRequest request) {
  const size_t budget = request.limit_bytes;
  request.limit_bytes = budget / 4;
  std::optional<Promise> pieces = PiecesOf(engine, candidates, request);
  request.limit_bytes = budget;
  if (!pieces) pieces = LeastPieces(engine, candidates, request);
  if (!pieces) return std::nullopt;
  pieces->limit_bytes = budget;
  pieces->owned_bytes = pieces->workspace_bytes;
  pieces->workspace_bytes = pieces->reported.workspace_bytes = 0;
  return pieces;
}

bool Serves(const Candidate& candidate, const PromiseRequest& request) {
  const MicroConfiguration& micro = candidate.micro;
  return micro.IsWhole(request.n) && candidate.native &&
         (!request.deterministic || micro.deterministic);
}

// Returns the promise that `pieces_of` makes of pieces of the named engine. If it makes none, and
// the named engine cannot run an identity activation, returns the promise of the fastest pieces of
// another engine of the caller's API.
template <typename PiecesOfEngine>
std::optional<Promise> PiecesAsNamed(PiecesOfEngine pieces_of, const NamedRequest& named,
                                     const std::vector<Candidate>& candidates,
                                     PromiseRequest request) {
  std::optional<Promise> best = pieces_of(named.engine, candidates, request);
  if (best || MayServeIdentity(named.problem.operation, named.engine)) return best;
  request.deterministic |= RequestForNamed(candidates, named).deterministic;
  std::set<EngineId> engines;
  for (const Candidate& candidate : candidates) {
    if (candidate.native) engines.insert(candidate.micro.engine);
  }
  for (const EngineId& engine : engines) {
    std::optional<Promise> pieces = pieces_of(engine, candidates, request);
    const bool better = pieces && (!best || pieces->reported.time_ms < best->reported.time_ms);
    if (better) best = std::move(pieces);
  }
  if (best) {
    // Reports the algorithm that the caller named, although the pieces run another one: the
    // caller's own call may run in place of the pieces.
    best->reported.engine = named.engine;
    best->reported.deterministic = request.deterministic;
  }
  return best;
}

template <typename PiecesOfEngine>
void AddPiecesBy(PiecesOfEngine pieces_of, Operation operation, MathType math,
                 const std::vector<Candidate>& candidates, const PromiseRequest& request,
                 std::vector<Offer>& offers) {
  for (const Candidate& candidate : candidates) {
    // The pieces of an algorithm are compared with the undivided algorithm, so the algorithm must
    // support the whole mini-batch.
    if (!Serves(candidate, request)) continue;
    std::optional<Promise> pieces = pieces_of(candidate.micro.engine, candidates, request);
    if (!pieces) continue;
    offers.push_back({math, PiecesAlone(operation, std::move(*pieces), candidate.micro)});
  }
}

}  // namespace

bool MakeKeepableAlone(Operation operation, const std::vector<Candidate>& candidates,
                       const EngineId& engine, const PromiseRequest& request, Promise& promise) {
  if (!MayServeIdentity(operation, engine)) return true;
  PromiseRequest within = request;
  within.limit_bytes = promise.workspace_bytes;
  std::optional<Promise> alone = PiecesOf(engine, candidates, within);
  if (!alone) alone = LeastPieces(engine, candidates, request);
  if (!alone) return false;
  promise.workspace_bytes = std::max(promise.workspace_bytes, alone->workspace_bytes);
  promise.reported.workspace_bytes = promise.workspace_bytes;
  promise.alone = std::move(alone->configuration);
  return true;
}

void AddOffers(Operation operation, MathType math, const std::vector<Candidate>& candidates,
               const PromiseRequest& request, std::vector<Offer>& offers) {
  const Baselines baselines = FindBaselines(candidates, request);
  for (const Candidate& candidate : candidates) {
    const MicroConfiguration& micro = candidate.micro;
    if (!Serves(candidate, request) || micro.workspace_bytes > request.limit_bytes) continue;
    Promise promise{micro, micro.workspace_bytes, {{{micro, 1}}}, micro, baselines};
    promise.limit_bytes = request.limit_bytes;
    offers.push_back({math, std::move(promise)});
  }
  PromiseRequest stricter = request;
  for (const bool deterministic : {false, true}) {
    stricter.deterministic |= deterministic;
    std::optional<Promise> promise = MakePromise(candidates, stricter);
    if (!promise || (promise->configuration.Pieces() == 1 && !UsesGraph(promise->configuration)))
      continue;
    const EngineId engine = promise->reported.engine;
    if (!MakeKeepableAlone(operation, candidates, engine, stricter, *promise)) continue;
    offers.push_back({math, std::move(*promise)});
  }
}

void AddTiles(Operation operation, MathType math, const std::vector<Candidate>& candidates,
              std::span<const Tiling> tilings, const PromiseRequest& request,
              std::vector<Offer>& offers) {
  PromiseRequest stricter = request;
  for (const bool deterministic : {false, true}) {
    stricter.deterministic |= deterministic;
    auto promise = OrInTiles(MakePromise(candidates, stricter), tilings, candidates, stricter);
    if (!promise || !promise->configuration.IsTiled()) continue;
    const EngineId engine = promise->reported.engine;
    if (!MakeKeepableAlone(operation, candidates, engine, stricter, *promise)) continue;
    offers.push_back({math, std::move(*promise)});
  }
}

void AddOffersInBudget(Operation operation, MathType math, const std::vector<Candidate>& candidates,
                       const PromiseRequest& request, std::vector<Offer>& offers,
                       std::span<const Tiling> tilings) {
  std::map<std::pair<NumericClass, bool>, std::optional<Promise>> plans;
  std::vector<Offer> others;
  for (const Candidate& candidate : candidates) {
    if (!Serves(candidate, request)) continue;
    const MicroConfiguration& micro = candidate.micro;
    PromiseRequest as_exact = request;
    as_exact.chosen = candidate.numeric;
    as_exact.deterministic = micro.deterministic;
    const auto [plan, fresh] = plans.try_emplace(std::pair(candidate.numeric, micro.deterministic));
    if (fresh) plan->second = MakeOwnedPromise(candidates, as_exact, tilings);
    if (!plan->second) continue;
    Promise promise = *plan->second;
    // Among offers with equal times, the one with the algorithm of the largest piece comes first.
    const bool of_largest = promise.configuration.Largest().engine == micro.engine;
    promise.reported = {micro.engine, request.n, promise.configuration.TimeMs(), 0,
                        micro.deterministic};
    promise = UndividedAlone(std::move(promise));
    as_exact.limit_bytes = 0;
    if (!MakeKeepableAlone(operation, candidates, micro.engine, as_exact, promise)) continue;
    (of_largest ? offers : others).push_back({math, std::move(promise)});
  }
  std::move(others.begin(), others.end(), std::back_inserter(offers));
}

std::vector<Offer> BestFirst(std::vector<Offer> offers) {
  std::stable_sort(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) {
    return a.promise.reported.time_ms < b.promise.reported.time_ms;
  });
  std::vector<Offer> best;
  for (Offer& offer : offers) {
    const bool listed = std::any_of(best.begin(), best.end(), [&](const Offer& other) {
      return other.math == offer.math &&
             other.promise.reported.engine == offer.promise.reported.engine;
    });
    if (!listed) best.push_back(std::move(offer));
  }
  return best;
}

std::optional<Promise> OfferFor(const NamedOffer& offer, const std::vector<Candidate>& candidates,
                                std::span<const Tiling> tilings) {
  const NamedRequest& named = offer.named;
  const PromiseRequest request = RequestForNamed(candidates, named);
  std::optional<Promise> promise =
      OrInTiles(MakePromise(candidates, request), tilings, candidates, request);
  if (!promise) return std::nullopt;
  PromiseRequest alone = request;
  // An identity activation may need more than the limit. Under a budget, its pieces use workspace
  // that is set aside (AssuredBytes). Otherwise the promise may grow to one byte less than the
  // named algorithm needs.
  std::optional<Promise> assured;
  if (named.in_budget && MayServeIdentity(named.problem.operation, named.engine)) {
    alone.limit_bytes = offer.budget_bytes;
    assured = LeastPieces(named.engine, candidates, alone);
  }
  alone.limit_bytes = std::max(named.limit_bytes, offer.need_bytes - 1);
  if (assured) {
    promise->alone = std::move(assured->configuration);
  } else if (!MakeKeepableAlone(named.problem.operation, candidates, named.engine, alone,
                                *promise)) {
    return std::nullopt;
  }
  promise->provisional = !offer.settled;
  if (offer.ranked) {
    for (MicroConfiguration* micro :
         {&promise->reported, &promise->configuration.runs[0].micro, &promise->undivided,
          &promise->baselines.own_api, &promise->baselines.any_api}) {
      micro->time_ms = kUnknownTime;
    }
    for (Run& run : promise->alone.runs) run.micro.time_ms = kUnknownTime;
  }
  // When everything is measured, a better plan may be found, which may need more workspace. So the
  // caller is told the largest size that such a plan may use.
  if (promise->provisional && offer.tunes) {
    promise->workspace_bytes =
        std::max(promise->workspace_bytes, std::min(named.limit_bytes, offer.need_bytes));
  }
  return promise;
}

Promise PiecesAlone(Operation operation, Promise pieces, MicroConfiguration undivided) {
  pieces.reference = std::move(undivided);
  pieces.ran_here = true;
  // Pieces of the named algorithm itself can also run an identity activation.
  const bool own = pieces.configuration.Largest().engine == pieces.reference.engine;
  if (operation == Operation::kForward && own) pieces.alone = pieces.configuration;
  return pieces;
}

std::optional<Promise> PiecesFor(const NamedOffer& offer,
                                 const std::vector<Candidate>& candidates) {
  const NamedRequest& named = offer.named;
  const size_t limit = named.in_budget ? offer.budget_bytes : named.limit_bytes;
  PromiseRequest request = RequestFor(named.problem, limit, named.deterministic);
  request.chosen = named.numeric;
  auto pieces = named.in_budget ? PiecesAsNamed(AssuredPieces, named, candidates, request)
                                : PiecesAsNamed(PiecesOf, named, candidates, request);
  if (!pieces) return std::nullopt;
  const Candidate* const measured = FindUndivided(candidates, named.engine, request.n);
  const MicroConfiguration undivided =
      measured != nullptr
          ? measured->micro
          : MicroConfiguration{named.engine, request.n, kUnknownTime, offer.need_bytes,
                               pieces->configuration.Deterministic()};
  return PiecesAlone(named.problem.operation, std::move(*pieces), undivided);
}

void AddPieces(Operation operation, MathType math, const std::vector<Candidate>& candidates,
               const PromiseRequest& request, std::vector<Offer>& offers) {
  AddPiecesBy(PiecesOf, operation, math, candidates, request, offers);
}

void AddPiecesInBudget(Operation operation, MathType math, const std::vector<Candidate>& candidates,
                       const PromiseRequest& request, std::vector<Offer>& offers) {
  AddPiecesBy(AssuredPieces, operation, math, candidates, request, offers);
}

}  // namespace ucudnn::planning
