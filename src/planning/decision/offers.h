// Decides what to tell a caller that asks about a kernel of the legacy API: for each math type,
// engines that run undivided, or promises. The functions keep no state; MakeKeepableAlone changes
// `promise`, and functions whose names begin with Add extend `offers`.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planning/decision/promises.h"

namespace ucudnn::planning {

// One entry of the answer to a query. Callers with the math type `math` are told
// `promise.reported`.
struct Offer {
  MathType math = MathType::kDefault;
  Promise promise;
};

// Changes `promise` so that pieces of `engine` alone can keep it. Does nothing and returns true
// unless `engine` is the single algorithm with which cuDNN supports a bias with identity
// activation: a query does not say whether such a call will follow. The promise may grow within the
// limit of `request`. Returns false if no pieces of `engine` fit that limit.
bool MakeKeepableAlone(Operation operation, const std::vector<Candidate>& candidates,
                       const EngineId& engine, const PromiseRequest& request, Promise& promise);

// AddOffers and AddOffersInBudget add to `offers` the promises that can be made within `request`.
// `candidates` are the engines for callers with the math type `math`.
//
// AddOffers is for kernels without a budget. It adds every undivided engine of the caller's API
// that fits. It also adds the fastest promise and, for callers that choose by determinism, the
// fastest deterministic promise, each only if it divides the mini-batch or uses engines of the
// graph API.
//
// AddOffersInBudget adds each algorithm that an engine without workspace can replace. The offer has
// the time of the best plan in ucudnn's own workspace; this plan may consist of tiles of `tilings`.
// Until the kernel's share is known, the promise runs only the engine without workspace.
void AddOffers(Operation operation, MathType math, const std::vector<Candidate>& candidates,
               const PromiseRequest& request, std::vector<Offer>& offers);
void AddOffersInBudget(Operation operation, MathType math, const std::vector<Candidate>& candidates,
                       const PromiseRequest& request, std::vector<Offer>& offers,
                       std::span<const Tiling> tilings = {});

// Adds promises in tiles, where tiles are faster than other plans: the fastest one and the fastest
// deterministic one.
void AddTiles(Operation operation, MathType math, const std::vector<Candidate>& candidates,
              std::span<const Tiling> tilings, const PromiseRequest& request,
              std::vector<Offer>& offers);

// Returns the fastest offer for each pair of engine and math type. The fastest of all comes first.
std::vector<Offer> BestFirst(std::vector<Offer> offers);

// The request of a caller that names an algorithm and did not ask before. Another engine than the
// named one may run the call.
struct NamedOffer {
  NamedRequest named;
  size_t need_bytes = 0;  // need of the named algorithm
  // True if the candidates were not measured. Their times then say only which candidate is faster.
  bool ranked = false;
  bool settled = true;  // no later measurement can add anything
  bool tunes = true;    // this process may measure the kernel later
  // The size of the budget, if there is one. A part of the budget may be set aside for the kernel.
  size_t budget_bytes = 0;
};
// Returns the promise for the caller of `offer`, in tiles of `tilings` if tiles gain time. Returns
// none if no undivided engine within the limit is as exact and as deterministic as demanded.
std::optional<Promise> OfferFor(const NamedOffer& offer, const std::vector<Candidate>& candidates,
                                std::span<const Tiling> tilings = {});

// Returns a promise that `pieces`, all of one engine, keep alone. Such a promise is for kernels
// that no undivided engine runs within the limit. `undivided` is an engine that runs the whole
// mini-batch. It becomes the promise's `reference`. The promise may be given once the pieces have
// run in this process and their output was compared with the output of `undivided`.
Promise PiecesAlone(Operation operation, Promise pieces, MicroConfiguration undivided);
// PiecesFor returns a promise of PiecesAlone for the algorithm that a caller named. The pieces run
// that algorithm or, if none of its pieces fit, another algorithm of the caller's API that is as
// exact and as deterministic. The other algorithm never runs an identity activation. Whether it
// supports pointers that are aligned to less than 16 bytes is known only when it runs.
//
// AddPieces is for callers that name no algorithm. It adds a promise of PiecesAlone for every
// algorithm, with pieces of that algorithm.
std::optional<Promise> PiecesFor(const NamedOffer& offer, const std::vector<Candidate>& candidates);
void AddPieces(Operation operation, MathType math, const std::vector<Candidate>& candidates,
               const PromiseRequest& request, std::vector<Offer>& offers);
// Adds promises of PiecesAlone under one budget, whose size is the limit of `request`. The caller
// passes no workspace. So AssuredBytes of each promise must be set aside: at most a fourth of the
// budget or, if no pieces fit a fourth, the least workspace that pieces need.
void AddPiecesInBudget(Operation operation, MathType math, const std::vector<Candidate>& candidates,
                       const PromiseRequest& request, std::vector<Offer>& offers);

}  // namespace ucudnn::planning
