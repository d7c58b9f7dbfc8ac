// Promises: what ucudnn tells a caller about a kernel (engine, workspace, determinism), and how it
// is kept. Pure functions over measurements; DESIGN's invariant 2.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convolution/configuration.h"
#include "convolution/problem.h"

namespace ucudnn::planning {

// The kind of arithmetic behind an engine. FFT and Winograd round differently from a direct sum, so
// a caller who asked for a direct engine never gets them.
enum class NumericClass { kDirect, kFft, kWinograd };

struct Candidate {
  MicroConfiguration micro;
  NumericClass numeric = NumericClass::kDirect;
  // Whether the caller's API has the engine: it may be reported, and take a plan's place.
  bool native = true;
};

// Within `workspace_bytes`, `plan` computes the kernel; so does `undivided`, in one piece of the
// caller's API: what runs when the plan may not (a fault, a capturing stream). Both are at least as
// deterministic and as exact as `reported`: the engine of the plan's largest piece or, where the
// caller's API does not have that, `undivided`. Only PiecesOf makes promises without an
// `undivided`: its engine is empty then.
struct Promise {
  MicroConfiguration reported;  // engine and determinism reported; micro_batch n, the plan's time
  size_t workspace_bytes = 0;   // what is reported, and all that is ever used
  Configuration plan;
  MicroConfiguration undivided;
  MicroConfiguration fastest_undivided;  // within the limit: what the plan was measured against
  size_t limit_bytes = 0;                // the ceiling it was made under
  // Pieces of the reported algorithm alone, within `workspace_bytes` too: for calls that no other
  // serves. Without runs where nobody needs that.
  Configuration alone;
  // Made before all was measured: a better plan may take the plan's place, inside the promise.
  bool provisional = false;
  // Of a pinned plan: nothing else is planned in its place.
  bool pinned = false;
  // Workspace that the library brings for the plan: then `workspace_bytes` is 0, and `undivided`
  // needs none.
  size_t library_bytes = 0;
};

struct PromiseRequest {
  int n = 0;                   // mini-batch
  int step = 1;                // legal batch boundaries
  size_t limit_bytes = 0;      // no promise exceeds it
  bool deterministic = false;  // only deterministic engines
  // Set: the caller chose an engine of this class; only direct engines and this class may serve.
  std::optional<NumericClass> chosen;
};

// What may be promised for `problem` whatever engine it is, within `limit_bytes`.
PromiseRequest RequestFor(const ConvolutionProblem& problem, size_t limit_bytes,
                          bool deterministic);

// Those of `measured` that the request allows at all: within its limit, deterministic where it
// demands that, no coarser than what the caller chose. They stay where they are.
std::vector<const Candidate*> AllowedCandidates(std::span<const Candidate> measured,
                                                const PromiseRequest& request);

// A running process divides, or uses an engine that the caller's API does not have, only for a
// measured gain over the fastest undivided engine that fits.
constexpr double kHysteresis = 0.03;

// The fastest promise; none when no engine of the caller's API runs undivided within the limit
// (then the genuine need must be promised).
std::optional<Promise> MakePromise(std::span<const Candidate> measured,
                                   const PromiseRequest& request);

// The promise of a given plan, whose pieces are among `measured`; none where the request does not
// allow it, or nothing of the caller's API keeps it undivided.
std::optional<Promise> MakePromiseOf(const Configuration& plan, std::span<const Candidate> measured,
                                     const PromiseRequest& request);
// Whether the request allows every piece of `plan`.
bool Allows(std::span<const Candidate> measured, const PromiseRequest& request,
            const Configuration& plan);

// The fastest division that the request allows, in one piece or several, without hysteresis and
// whether or not anything could take its place.
std::optional<Configuration> FastestDivision(std::span<const Candidate> measured,
                                             const PromiseRequest& request);

// The fastest candidate of the caller's API that the request allows and that takes the whole
// mini-batch in one piece.
std::optional<MicroConfiguration> FastestUndivided(std::span<const Candidate> measured,
                                                   const PromiseRequest& request);

// The fastest division into pieces of `engine` alone, with nothing to take their place; none when
// no division fits.
std::optional<Promise> PiecesOf(const std::string& engine, std::span<const Candidate> measured,
                                const PromiseRequest& request);

}  // namespace ucudnn::planning
