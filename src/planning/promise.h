// Promises: what ucudnn tells a caller about a kernel (engine, workspace, determinism), and the
// plan that keeps it. Pure functions over measurements (docs/design.md, invariant 2).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convolution/configuration.h"
#include "convolution/numeric_class.h"
#include "convolution/problem.h"

namespace ucudnn::planning {

// The fastest undivided engines within the limit, with which a plan is compared to state its gain.
// An engine is empty if none is known.
struct Baselines {
  MicroConfiguration own_api;  // fastest of the API that the program calls
  MicroConfiguration any_api;  // fastest of any API whose engines may serve the call

  bool operator==(const Baselines&) const = default;
};

struct Candidate {
  MicroConfiguration micro;
  NumericClass numeric = NumericClass::kDirect;
  // True if the caller's API has the engine, so that the engine may be reported and may replace a
  // plan.
  bool native = true;

  bool operator==(const Candidate&) const = default;
};

// The measurements of one grid of tiles, for each kind of tile. The engines are engines of the
// kind's own problem, not of the whole convolution. Time and workspace are for one tile and include
// the summing of partials. The times assume that all tiles run one after the other.
struct Tiling {
  struct Kind {
    int count = 0;                      // number of tiles
    std::vector<Candidate> candidates;  // measurements at the kind's images and lengths

    bool operator==(const Kind&) const = default;
  };
  TileGrid grid;
  std::vector<Kind> kinds;  // in the order of Tiles::kinds

  bool operator==(const Tiling&) const = default;
};

// Two ways to compute a kernel within `workspace_bytes`. One is the plan `configuration`. The other
// is `undivided`, an engine of the caller's API that computes the kernel in one piece; it replaces
// the plan after a fault or inside a capture. Both are at least as exact and as deterministic as
// `reported`. The engine of `undivided` is empty only if pieces keep the promise alone (PiecesOf,
// Alone).
struct Promise {
  // The engine and determinism that the caller is told, with n images and the plan's time. The
  // engine is that of the plan's largest piece or, if the caller's API lacks that engine, that of
  // `undivided`.
  MicroConfiguration reported;
  size_t workspace_bytes = 0;  // what the caller is told; no call ever uses more
  Configuration configuration;
  MicroConfiguration undivided;
  Baselines baselines;
  // The engine with which the pieces are compared if `undivided` is empty. It is the engine of
  // `reported` on the whole mini-batch, and does not fit the limit.
  MicroConfiguration reference;
  size_t limit_bytes = 0;  // the ceiling under which the promise was made
  // Pieces of the reported algorithm only, for calls that no other engine supports. They fit
  // `workspace_bytes` or, under a budget, workspace that is set aside (AssuredBytes). Has no runs
  // if such calls cannot occur.
  Configuration alone;
  // True if the plan was made before everything was measured. A better plan may replace it later,
  // within the same promise.
  bool provisional = false;
  // True if the pieces were run and compared in this process, so that a capture may contain them.
  // If `undivided` is also empty, the pieces keep the promise alone.
  bool ran_here = false;
  // True if the plan comes from a workspace plan. Then no other plan replaces it.
  bool of_workspace_plan = false;
  // Bytes of workspace that ucudnn provides for the plan. If this is not 0, `workspace_bytes` is 0
  // and `undivided` needs no workspace. If `undivided` is empty, this workspace must be set aside
  // (AssuredBytes).
  size_t owned_bytes = 0;
  std::string no_tiles;  // if a limit excludes faster engines: why no tiles fit, either
};

// Returns the bytes of ucudnn's workspace that must be set aside to keep the promise. These are the
// bytes of pieces that nothing can replace: the pieces of the plan or of `alone`.
size_t AssuredBytes(const Promise& promise);

struct PromiseRequest {
  int n = 0;                   // the mini-batch
  int step = 1;                // pieces begin at multiples of this many images (LegalStep)
  size_t limit_bytes = 0;      // limit of every promise
  bool deterministic = false;  // only deterministic engines may serve
  // If set, the caller chose an engine of this numeric class. Then only engines of this class and
  // of kDirect may serve.
  std::optional<NumericClass> chosen;

  bool operator==(const PromiseRequest&) const = default;
};

// Returns a request for `problem` that admits every engine within `limit_bytes`; if `deterministic`
// is true, only deterministic engines.
PromiseRequest RequestFor(const ConvolutionProblem& problem, size_t limit_bytes,
                          bool deterministic);

// Returns the candidates that the request allows: within its limit, deterministic if it demands
// that, and no coarser than the class that the caller chose. Leaves out candidates without a valid
// time. The pointers point into `measured`.
std::vector<const Candidate*> AllowedCandidates(std::span<const Candidate> measured,
                                                const PromiseRequest& request);

// A running process divides a kernel only if the division was measured to be faster by at least
// this fraction than the fastest undivided engine that fits. An engine that the caller's API lacks
// must be faster by this fraction than the fastest engine of the caller's API.
constexpr double kHysteresis = 0.03;

// Makes the fastest promise. Returns none if no engine of the caller's API runs undivided within
// the limit; then the caller must be told the real need. A larger limit makes the promise slower by
// at most kHysteresis: the time under the larger limit, times (1 - kHysteresis), is at most the
// time under the smaller limit.
std::optional<Promise> MakePromise(std::span<const Candidate> measured,
                                   const PromiseRequest& request);

// Returns the time of the fastest plan that can be promised, even if the plan is faster than other
// plans by less than kHysteresis. Returns none if MakePromise returns none. (1 - kHysteresis) times
// the time of MakePromise's plan is at most this time.
std::optional<double> FastestPromisableMs(std::span<const Candidate> measured,
                                          const PromiseRequest& request);

// Returns the promise of the plan `configuration`, whose pieces are among `measured`. Returns none
// if the request does not allow the plan, if a piece is less exact or less deterministic than the
// largest piece, or if no undivided engine of the caller's API can replace the plan.
std::optional<Promise> MakePromiseOf(const Configuration& configuration,
                                     std::span<const Candidate> measured,
                                     const PromiseRequest& request);
// Returns the fastest division into tiles that the request allows. If several are equally fast,
// returns the one with the fewest tiles. Each kind of tile has the fastest engine that is no
// coarser than `coarsest`.
std::optional<Configuration> FastestTiles(std::span<const Tiling> tilings,
                                          const PromiseRequest& request, NumericClass coarsest);
// Returns `promise` or, if tiles are faster by kHysteresis, the promise of these tiles. If
// `promise` is none, neither an undivided engine nor a division of the mini-batch fits, and the
// tiles need not be faster than anything. A promise in tiles reports an undivided engine of the
// caller's API among `measured`, which runs the calls that tiles cannot serve.
std::optional<Promise> OrInTiles(std::optional<Promise> promise, std::span<const Tiling> tilings,
                                 std::span<const Candidate> measured,
                                 const PromiseRequest& request);

// Returns whether the request allows every piece of `configuration`.
bool Allows(std::span<const Candidate> measured, const PromiseRequest& request,
            const Configuration& configuration);

// Returns the fastest division that the request allows, into one or several pieces. No piece is
// less exact or less deterministic than the largest piece. Does not apply kHysteresis, and does not
// require an engine that could replace the division.
std::optional<Configuration> FastestDivision(std::span<const Candidate> measured,
                                             const PromiseRequest& request);

// Returns the fastest candidate of the caller's API that runs the whole mini-batch in one piece and
// that the request allows.
std::optional<MicroConfiguration> FastestUndivided(std::span<const Candidate> measured,
                                                   const PromiseRequest& request);

// Returns the fastest undivided engine of the caller's API (FastestUndivided), and the fastest one
// of any API that can be promised.
Baselines FindBaselines(std::span<const Candidate> measured, const PromiseRequest& request);

// Returns a promise of the fastest division into pieces of `engine` alone, without an `undivided`
// engine. Returns none if no division fits.
std::optional<Promise> PiecesOf(const EngineId& engine, std::span<const Candidate> measured,
                                const PromiseRequest& request);

}  // namespace ucudnn::planning
