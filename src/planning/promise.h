// Promises: what ucudnn tells a caller about a kernel (engine, workspace, determinism), and how it
// keeps that. Pure functions over measurements (docs/design.md, invariant 2).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "convolution/configuration.h"
#include "convolution/numeric_class.h"
#include "convolution/problem.h"

namespace ucudnn::planning {

// The engines over which a plan's gain is measured: the fastest within the limit that take the
// whole mini-batch in one piece. An empty engine means that none is known.
struct Baselines {
  MicroConfiguration own_api;  // of the API that the program calls
  MicroConfiguration any_api;  // of any API whose engines may serve the call

  bool operator==(const Baselines&) const = default;
};

struct Candidate {
  MicroConfiguration micro;
  NumericClass numeric = NumericClass::kDirect;
  // The caller's API has the engine, so it may be reported, and may replace a plan.
  bool native = true;

  bool operator==(const Candidate&) const = default;
};

// Measurements of one grid of tiles, kind by kind. They are for its problem's own engines, with the
// workspace and the time that one tile takes in a row with all others, including the summing of
// partials.
struct Tiling {
  struct Kind {
    int count = 0;                      // number of tiles
    std::vector<Candidate> candidates;  // of the kind's images and lengths

    bool operator==(const Kind&) const = default;
  };
  TileGrid grid;
  std::vector<Kind> kinds;  // in the order of Tiles::kinds

  bool operator==(const Tiling&) const = default;
};

// Both `configuration` and `undivided` compute the kernel within `workspace_bytes`. `undivided`
// does so in one piece, by an engine of the caller's API; it runs if the plan may not, after a
// fault or inside a capture. Both are at least as exact and as deterministic as `reported`, which
// is the engine of the plan's largest piece or, if the caller's API lacks it, `undivided`. Only
// promises of PiecesOf have no `undivided`: its engine is empty.
struct Promise {
  // The engine and determinism reported, with n images and the plan's time.
  MicroConfiguration reported;
  size_t workspace_bytes = 0;  // reported; no call ever uses more
  Configuration configuration;
  MicroConfiguration undivided;
  Baselines baselines;
  // If no `undivided` engine can replace the pieces, they are compared with this: their own engine
  // on the whole mini-batch, which does not fit the limit.
  MicroConfiguration reference;
  size_t limit_bytes = 0;  // the ceiling that it was made under
  // Pieces of only the reported algorithm that also fit `workspace_bytes`, for calls that no other
  // engine serves. Has no runs if no such call can come.
  Configuration alone;
  // The plan was made before everything was measured. A better one may replace it, inside the
  // promise.
  bool provisional = false;
  // The pieces were run and compared in this process, so a capture may contain them, and they keep
  // the promise if no undivided engine does.
  bool ran_here = false;
  // The plan is from a workspace plan: no other one replaces it.
  bool of_workspace_plan = false;
  // Workspace that ucudnn brings for the plan; then `workspace_bytes` is 0, and `undivided` needs
  // none. If there is no `undivided`, this much must be assured (AssuredBytes).
  size_t owned_bytes = 0;
};

// Returns the bytes of ucudnn's workspace that must be set aside to keep the promise: without them
// neither the plan runs nor the pieces of the reported algorithm `alone`.
size_t AssuredBytes(const Promise& promise);

struct PromiseRequest {
  int n = 0;                   // the mini-batch
  int step = 1;                // legal distance of batch boundaries, in images
  size_t limit_bytes = 0;      // no promise exceeds it
  bool deterministic = false;  // only deterministic engines may serve
  // If set, the caller chose an engine of this class, so only direct engines and this class may
  // serve.
  std::optional<NumericClass> chosen;

  bool operator==(const PromiseRequest&) const = default;
};

// Returns the request for `problem` that any engine within `limit_bytes` may meet.
PromiseRequest RequestFor(const ConvolutionProblem& problem, size_t limit_bytes,
                          bool deterministic);

// Returns the candidates that the request allows: within its limit, deterministic if it demands
// that, and no coarser than what the caller chose. The pointers point into `measured`.
std::vector<const Candidate*> AllowedCandidates(std::span<const Candidate> measured,
                                                const PromiseRequest& request);

// A running process divides, or uses an engine that the caller's API lacks, only if that was
// measured to take less than the fastest undivided engine that fits, by at least this share.
constexpr double kHysteresis = 0.03;

// Makes the fastest promise. None if no engine of the caller's API runs undivided within the limit;
// the real need must then be promised. More room never makes it slower, except by kHysteresis:
// under a larger limit, its time times (1 - kHysteresis) is at most the time under a smaller one.
std::optional<Promise> MakePromise(std::span<const Candidate> measured,
                                   const PromiseRequest& request);

// Returns the time of the fastest plan that can be promised, whatever it gains over others. None if
// MakePromise returns none; MakePromise's time times (1 - kHysteresis) is at most this time.
std::optional<double> FastestPromisableMs(std::span<const Candidate> measured,
                                          const PromiseRequest& request);

// Returns the promise of a given plan, whose pieces are among `measured`. None if the request does
// not allow it, or no undivided engine of the caller's API keeps it.
std::optional<Promise> MakePromiseOf(const Configuration& configuration,
                                     std::span<const Candidate> measured,
                                     const PromiseRequest& request);
// Returns the division into tiles that takes least time among those that the request allows; among
// equals the one of fewest tiles. Each kind of tile has the engine that is fastest for it. None of
// them is coarser than `coarsest`.
std::optional<Configuration> FastestTiles(std::span<const Tiling> tilings,
                                          const PromiseRequest& request, NumericClass coarsest);
// Returns `promise` or, if tiles are faster by kHysteresis, the promise of these tiles. `promise`
// is none if neither an undivided engine nor a division of the mini-batch fits. A promise of tiles
// has an undivided engine of the caller's API among `measured`, which is reported and serves calls
// that tiles cannot.
std::optional<Promise> OrInTiles(std::optional<Promise> promise, std::span<const Tiling> tilings,
                                 std::span<const Candidate> measured,
                                 const PromiseRequest& request);

// Returns whether the request allows every piece of `configuration`.
bool Allows(std::span<const Candidate> measured, const PromiseRequest& request,
            const Configuration& configuration);

// Returns the fastest division that the request allows, in one piece or several, whose largest
// piece is the least exact and the least deterministic of its pieces. Ignores hysteresis, and
// whether anything could replace it.
std::optional<Configuration> FastestDivision(std::span<const Candidate> measured,
                                             const PromiseRequest& request);

// Returns the fastest candidate of the caller's API that takes the whole mini-batch in one piece
// and that the request allows.
std::optional<MicroConfiguration> FastestUndivided(std::span<const Candidate> measured,
                                                   const PromiseRequest& request);

// FastestUndivided of the caller's API and, among engines that can be promised, of any API.
Baselines FindBaselines(std::span<const Candidate> measured, const PromiseRequest& request);

// Returns the fastest division into pieces of only `engine`, which nothing replaces; none if no
// division fits.
std::optional<Promise> PiecesOf(const EngineId& engine, std::span<const Candidate> measured,
                                const PromiseRequest& request);

}  // namespace ucudnn::planning
