// Decides what a caller gets that asks about a kernel of the legacy API: for each math type the
// engines, undivided or as a promise. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planning/decision/promises.h"

namespace ucudnn::planning {

// One line of an answer: `promise.reported`, for a caller that sets the math type `math`.
struct Offer {
  MathType math = MathType::kDefault;
  Promise promise;
};

// Makes `promise` one that `engine` alone can keep if that may be necessary: cuDNN serves a bias
// with identity activation by a single algorithm, and a caller does not say while asking whether
// such a call will follow. The promise may grow within `request`. Returns false if the engine
// cannot keep it alone.
bool MakeKeepableAlone(Operation operation, const std::vector<Candidate>& candidates,
                       const EngineId& engine, const PromiseRequest& request, Promise& promise);

// Adds to `offers` what `candidates`, engines for callers with `math`, can promise within
// `request`. AddOffers, without a budget, adds every undivided engine that fits, and the promises
// that are faster: the fastest, and the fastest deterministic one, for callers that choose by
// determinism.
//
// AddOffersInBudget adds each algorithm that an engine without workspace can keep, with the time of
// the best plan in ucudnn's own workspace, including plans of `tilings`. That engine is the promise
// until the kernel's share is known.
void AddOffers(Operation operation, MathType math, const std::vector<Candidate>& candidates,
               const PromiseRequest& request, std::vector<Offer>& offers);
void AddOffersInBudget(Operation operation, MathType math, const std::vector<Candidate>& candidates,
                       const PromiseRequest& request, std::vector<Offer>& offers,
                       std::span<const Tiling> tilings = {});

// Adds the promises in tiles of `tilings` that are faster than the promises of AddOffers: the
// fastest and the fastest deterministic one.
void AddTiles(Operation operation, MathType math, const std::vector<Candidate>& candidates,
              std::span<const Tiling> tilings, const PromiseRequest& request,
              std::vector<Offer>& offers);

// Returns each pair of engine and math type once, with its fastest offer; the fastest first.
std::vector<Offer> BestFirst(std::vector<Offer> offers);

// A caller that named an algorithm without asking first, and that another engine may serve.
struct NamedOffer {
  NamedRequest named;
  size_t need_bytes = 0;  // of the named algorithm
  bool ranked = false;    // the candidates were not measured: their times are only an order
  bool settled = true;    // a later measurement cannot add anything
  bool tunes = true;      // this process may measure later
  // Under one budget: the size of the budget. A part of it may be assured to the kernel.
  size_t budget_bytes = 0;
};
// Returns the promise for the caller of `offer`, in tiles if tiles of `tilings` gain. None if no
// undivided engine is as exact, as deterministic and within the limit.
std::optional<Promise> OfferFor(const NamedOffer& offer, const std::vector<Candidate>& candidates,
                                std::span<const Tiling> tilings = {});

// Returns a promise that `pieces` of one engine keep alone, for kernels that no undivided engine
// serves within the limit. It may be given once the pieces have run in this process and were
// compared with `undivided`, which becomes its `reference`: the engine itself on the whole
// mini-batch.
Promise PiecesAlone(Operation operation, Promise pieces, MicroConfiguration undivided);
// PiecesFor returns a promise of PiecesAlone for the algorithm that a caller named, by its own
// pieces or, if these do not fit, by pieces of another algorithm of the caller's API that is as
// exact and as deterministic. Only the algorithm itself serves an identity activation. Whether the
// other one serves pointers that are aligned to less than 16 bytes is known when it runs. AddPieces
// adds such promises of every algorithm, by its own pieces, for callers that have not been told of
// one.
std::optional<Promise> PiecesFor(const NamedOffer& offer, const std::vector<Candidate>& candidates);
void AddPieces(Operation operation, MathType math, const std::vector<Candidate>& candidates,
               const PromiseRequest& request, std::vector<Offer>& offers);
// Adds promises of PiecesAlone under one budget, whose bytes are `request`'s limit. The caller
// brings no workspace, and AssuredBytes must be set aside: at most a fourth of the budget or, if no
// pieces fit that, the least that pieces need.
void AddPiecesInBudget(Operation operation, MathType math, const std::vector<Candidate>& candidates,
                       const PromiseRequest& request, std::vector<Offer>& offers);

}  // namespace ucudnn::planning
