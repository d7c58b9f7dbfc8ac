// Decides how one kernel runs. Decide turns Facts into the next step: a question, whose answer the
// caller adds to the facts before it asks again, or the decision. Pure: equal facts give equal
// steps. BrokenInvariant checks the postconditions (docs/design.md, invariants 1 to 4 and 7 to 9).
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "planning/decision/facts.h"
#include "planning/decision/reason.h"

namespace ucudnn::planning {

enum class Course {
  kReal,      // the program's own call, unchanged
  kSchedule,  // the pieces of Decision::configuration
  kRefusal,   // the call, or finalizing the plan, returns CUDNN_STATUS_NOT_SUPPORTED
};
// What runs in place of a schedule that cannot run because memory is missing, a piece failed, or a
// capture forbids it.
enum class Otherwise {
  kReal,       // the program's own call, whose need was promised
  kUndivided,  // the undivided engine, which fits the promise
  // nothing, because no undivided engine fits the promise: the error of the pieces is the answer
  kPieces,
};
// When a call of the kernel decides again, because more may be known by then.
enum class When { kNever, kNextCall, kLater };

struct Decision {
  Course course = Course::kReal;
  // The configuration that runs; for kReal the program's own engine, with its time if that is
  // known.
  Configuration configuration;
  MicroConfiguration
      undivided;  // runs in place of `configuration`; an empty engine means that nothing can
  Otherwise otherwise = Otherwise::kReal;
  size_t promised_bytes = 0;  // of the caller's workspace; no call ever uses more
  size_t owned_bytes = 0;     // of ucudnn's own workspace, for the pieces
  bool ran_here = false;      // the pieces ran in this process, so they may be captured
  size_t limit_bytes = 0;     // the ceiling that it was decided under
  Baselines baselines;
  Reason reason;
  When look_again = When::kNever;
  // The earlier decision stays in force, because the better plan was not compared yet.
  bool standing = false;
  // The program is told less than the need of its plan of the graph API; `promise` says how that is
  // kept.
  bool promises_less = false;
  // The promise exceeds the plan's need, within the user's limit, so that tiles have room. What
  // runs may need less.
  bool promises_more = false;
  std::optional<KeptPromise> promise;
  // `promise` is new. Steps::Keep stores it before the program is told.
  bool gives_promise = false;
  // `promise` takes the place of one from the store that cannot be kept.
  bool replaces_promise = false;
  std::vector<Note> notes;

  bool operator==(const Decision&) const = default;
};

using Step = std::variant<Measure, FindTilings, FindSubstitutes, Compare, Build, Decision>;

Step Decide(const Facts& facts);

// Returns the decision that the program's own call runs, for the reason `because`.
Decision AsAsked(const Facts& facts, Because because);

// Returns the candidates of a plan of the graph API under one budget: `own`, the rows of the plan's
// own engine, and `other`, rows of an engine that runs all `n` images without workspace. Drops rows
// of `own` that claim to run all images in less than the plan's `need_bytes`.
std::vector<Candidate> CandidatesInBudget(std::vector<Candidate> own,
                                          const std::vector<Candidate>& other, int n,
                                          size_t need_bytes);

// Returns whether tiles of a kernel are sought: to gain time, or to fit the request's limit if no
// division of the mini-batch into pieces of `candidates` does.
bool MayTile(TileUse tiles, const std::vector<Candidate>& candidates,
             const PromiseRequest& request);
// Returns whether tiles are measured under one budget, in which the kernel may use `limit_bytes`.
// Tiles that only serve to fit are measured only if `need_bytes`, the kernel's need without any
// limit, exceeds that.
bool MayMeasureTiles(TileUse tiles, size_t need_bytes, size_t limit_bytes);
// Returns the workspace of the fastest undivided engine among `candidates`, of whatever size.
size_t WorkspaceOfFastest(const std::vector<Candidate>& candidates,
                          const ConvolutionProblem& problem);
// Returns why tiles do not serve a program that nothing else serves within a limit. `tilings` were
// asked for under that limit. Empty if more may be known later.
std::string WhyNoTiles(const Tilings& tilings);

// Returns the postcondition that `decision` breaks, in words (static text) that begin with the
// invariant's number in docs/design.md; null if it keeps all of them.
//  1. No engine is coarser or less deterministic than the program asked for or was told. A plan of
//     the graph API is divided with its own engine. Only a substitute or the workspace plan
//     replaces it and, in tiles of a vast plan, engines that are as exact.
//  2. Nothing exceeds the workspace that the caller passes, or that a plan promises: its need, or
//     less, or more if the user has a limit. An undivided engine inside the promise keeps it, or
//     pieces that nothing can replace. A plan that was promised less than it needs never runs as
//     the program asked for it.
//  3. All that runs was built.
//  4. Pieces are multiples of the legal step, or tiles, and cover the mini-batch.
//  7. Without a need to fit, nothing is slower than what the program asked for, as far as both are
//     measured. Nothing is refused unless the user demands it.
//  8. Workspace that was not promised earlier, plus ucudnn's own, stays within the limit.
//  9. Pieces were compared, except for pieces that alone keep a promise.
const char* BrokenInvariant(const Facts& facts, const Decision& decision);

// After this many plans of a kernel were found wrong, no further plan is compared.
constexpr int kMostWrong = 4;
// An upper bound on the steps of a decision. More steps mean that the answer to a question is not
// found again, so that the question would be asked for ever.
constexpr int kMostSteps = 100;

}  // namespace ucudnn::planning
