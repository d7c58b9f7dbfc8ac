// Decides how one kernel runs. Decide turns Facts into the next step: either a question, whose
// answer the caller adds to the facts before it calls Decide again, or the decision. Pure: equal
// facts give equal steps. BrokenInvariant checks the postconditions (docs/design.md, invariants 1
// to 4 and 7 to 9).
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "planning/decision/facts.h"
#include "planning/decision/reason.h"

namespace ucudnn::planning {

enum class CallAction {
  kReal,      // the program's own call, unchanged
  kSchedule,  // the pieces of Decision::configuration
  kRefusal,   // the call, or the finalizing of the plan, returns CUDNN_STATUS_NOT_SUPPORTED
};
// Says what runs instead of a schedule if memory is missing, a piece failed or a capture forbids
// the schedule.
enum class FallbackKind {
  kReal,       // the program's own call, whose need was promised
  kUndivided,  // the undivided engine, which fits the promise
  // Nothing replaces the pieces, because no undivided engine fits the promise. The call returns the
  // error of the pieces.
  kPieces,
};
// The later call at which the kernel is decided again, because more may be known by then.
enum class When { kNever, kNextCall, kLater };

struct Decision {
  CallAction action = CallAction::kReal;
  // The configuration that runs. For kReal it is the program's own engine, with its time if that is
  // known.
  Configuration configuration;
  // The engine that can replace `configuration` in one piece; an empty engine if none can.
  MicroConfiguration undivided;
  FallbackKind fallback = FallbackKind::kReal;
  size_t promised_bytes = 0;  // of the caller's workspace; no call ever uses more
  size_t owned_bytes = 0;     // of ucudnn's own workspace, for the pieces
  bool ran_here = false;      // the pieces ran in this process, so they may be captured
  size_t limit_bytes = 0;     // the limit under which the decision was made
  Baselines baselines;
  Reason reason;
  When look_again = When::kNever;
  // True if the earlier decision stays in force, for example because the better plan of this
  // decision was not compared yet or would change the promise.
  bool standing = false;
  // True if the program is told less workspace than its plan of the graph API needs. `promise` says
  // how the smaller promise is kept.
  bool promises_less = false;
  // True if the promise exceeds the plan's need but not the user's limit, so that tiles may use
  // more workspace than the plan. The pieces may need less than promised.
  bool promises_more = false;
  std::optional<KeptPromise> promise;
  // True if `promise` is new: DecisionAnswers::Keep stores it before the program is told.
  bool gives_promise = false;
  // True if `promise` replaces a promise from the store that cannot be kept.
  bool replaces_promise = false;
  std::vector<Note> notes;

  bool operator==(const Decision&) const = default;
};

using Step = std::variant<Measure, FindTilings, FindSubstitutes, Compare, Build, Decision>;

Step Decide(const Facts& facts);

// Returns the decision to run the program's own call unchanged, for the reason `because`.
Decision AsAsked(const Facts& facts, ReasonKind because);

// Returns the candidates for a plan of the graph API that shares a budget. `own` are the rows of
// the plan's own engine. `other` are the rows of a substitute, which runs without workspace. Only
// the rows of `other` for all `n` images are returned. Rows of `own` for all images are dropped if
// they state less workspace than the plan's `need_bytes`.
std::vector<Candidate> CandidatesInBudget(std::vector<Candidate> own,
                                          const std::vector<Candidate>& other, int n,
                                          size_t need_bytes);

// Returns whether tiles of a kernel are sought: to gain time, or to fit the request's limit if no
// pieces of the mini-batch among `candidates` fit it.
bool MayTile(TileUse tiles, const std::vector<Candidate>& candidates,
             const PromiseRequest& request);
// Returns whether tiles are measured for a kernel that may use `limit_bytes` of a budget. Tiles
// whose only purpose is to fit are measured only if `limit_bytes` is not 0 and is less than
// `need_bytes`, the kernel's need without any limit.
bool MayMeasureTiles(TileUse tiles, size_t need_bytes, size_t limit_bytes);
// Returns the workspace of the fastest undivided engine among `candidates`, whatever its workspace.
size_t WorkspaceOfFastest(const std::vector<Candidate>& candidates,
                          const ConvolutionProblem& problem);
// Returns why tiles do not bring a kernel under the limit if neither an undivided engine nor
// micro-batches do. Returns an empty string if a later call may know more. `tilings` is the answer
// to FindTilings with that limit.
std::string WhyNoTiles(const Tilings& tilings);

// Returns the postcondition that `decision` breaks, in words (static text) that begin with the
// invariant's number in docs/design.md; null if it keeps all of them.
//  1. No engine is less exact or less deterministic than the program asked for or was told. A plan
//     of the graph API is divided with its own engine. There are three exceptions: a substitute,
//     engines that the workspace plan names, and engines of a vast plan's tiles that are as exact.
//  2. Nothing uses more than the workspace that the caller passes, or that a plan promises. A plan
//     promises its need or less; if the user has set a limit, it may also promise more. The promise
//     is kept by an undivided engine that fits it, or by pieces that nothing can replace. A plan
//     that was promised less than it needs never runs as the program asked for it.
//  3. Everything that runs was built before.
//  4. Pieces are multiples of the legal step, or tiles, and cover the mini-batch.
//  7. Unless the kernel must fit a limit, nothing is slower than what the program asked for, as far
//     as both were measured. Nothing is refused unless the user demands it.
//  8. A promise that was not given earlier stays within the user's limit, and ucudnn's own
//     workspace within the kernel's share of the budget.
//  9. Pieces run only after a comparison, unless only they keep a promise.
const char* BrokenInvariant(const Facts& facts, const Decision& decision);

// If this number of plans of a kernel were found wrong, no further plan of the kernel is compared.
constexpr int kMostWrong = 4;
// An upper bound on the steps of a decision. If a decision takes more, Decide does not recognise
// the answer to one of its own questions and would ask that question forever.
constexpr int kMostSteps = 100;

}  // namespace ucudnn::planning
