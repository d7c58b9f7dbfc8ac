// The facts about one kernel from which Decide decides how it runs: what the program asked for and
// was told, what the user demands, and the answers to Decide's questions so far. Plain values.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "convolution/configuration.h"
#include "convolution/engine_id.h"
#include "convolution/numeric_class.h"
#include "convolution/problem.h"
#include "planning/decision/reason.h"
#include "planning/decision/tile_use.h"
#include "planning/promise.h"
#include "planning/trust.h"

namespace ucudnn::planning {

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();
// The value of a time that is unknown.
constexpr double kUnknownTime = -1;

// The properties of a legacy call, besides the problem, on which a decision depends.
//  - kPlain: alpha = 1 and beta = 0, so that engines of the graph API may serve the call; or any
//    scales, if only legacy engines may serve.
//  - kAdding: a filter gradient with beta = 1. Engines of the graph API serve it with separate
//    plans, which must have run once before they are captured.
//  - kScaled: other scales, which only legacy engines serve.
//  - kActivation: bias and activation.
//  - kIdentity: bias with identity activation, which cuDNN serves with one algorithm only.
//  - kMisaligned: a pointer is aligned to less than 16 bytes, so that perhaps only the algorithm
//    that the caller names serves the call.
enum class CallKind : int32_t { kPlain, kAdding, kScaled, kActivation, kMisaligned, kIdentity };

// Each question of Decide names the type of its answer as Question::Answer.

// The answer to Measure. Measure asks for measurements at the policy's sizes that `request` allows.
// An empty `engine` means all engines that may serve a legacy kernel. Otherwise `engine` is the
// plan's own engine, or a substitute. A substitute is measured on the whole mini-batch only.
struct Rows {
  std::vector<Candidate> candidates;
  bool settled = false;  // false: a later call may know more
  bool late = false;     // not settled, and no time is left in this process to measure more
};
struct Measure {
  using Answer = Rows;
  EngineId engine;
  PromiseRequest request;
  bool operator==(const Measure&) const = default;
};

// The answer to FindTilings. FindTilings asks for grids of tiles that were measured within the
// limit of `request`. If `engine` is not empty, it is the plan's own engine, which the tiles run.
// Otherwise the tiles run any engine that may serve plain calls of a legacy kernel or the tiles of
// a vast plan. FindTilings is asked only if Facts::tiles allows it, or if a promise in tiles was
// given.
struct Tilings {
  std::vector<Tiling> measured;
  // If no grid fits: the smallest workspace of a grid; 0: unknown.
  size_t least_bytes = 0;
  std::string why;      // what prevented the last grid, if no grid can be run
  bool settled = true;  // see Rows::settled
  bool late = false;    // see Rows::late
};
struct FindTilings {
  using Answer = Tilings;
  EngineId engine;
  PromiseRequest request;
  bool may_measure = true;  // false: only tiles that were measured before are returned
  bool operator==(const FindTilings&) const = default;
};

// Asks for undivided engines that may replace a plan within `limit_bytes`. They are as exact and as
// deterministic as the plan, and the most promising one comes first. If the plan's own engine fits,
// the answer is that engine alone; otherwise, if `promised` fits, it is `promised` alone. Otherwise
// the answer has engines of the heuristics' list and an engine that was measured on the whole
// mini-batch. If none of these fit, the answer has any engine that fits.
struct FindSubstitutes {
  using Answer = std::vector<MicroConfiguration>;
  EngineId promised;  // the engine of an earlier promise; empty if there was none
  size_t limit_bytes = 0;
  bool operator==(const FindSubstitutes&) const = default;
};

// Asks whether `configuration` computes the same as the undivided engine `against`. If the memory
// for measuring cannot hold the whole convolution, each kind of tile is compared alone. With
// `need_whole` nothing is compared in that case, because a plan that must not be slower than the
// undivided engine has to be compared with that engine on the whole convolution. If the engine of
// `faster_than` is not empty, tiles are also timed on the tensors of the whole convolution, in turn
// with `faster_than`, the fastest undivided engine that could run instead. The tiles must be faster
// by kHysteresis.
struct Compare {
  using Answer = Trust;
  Configuration configuration;
  MicroConfiguration against;
  Proof proof = Proof::kOnce;
  bool need_whole = false;
  MicroConfiguration faster_than = {};
  bool operator==(const Compare&) const = default;
};

// The answer to Build. Build asks to make ready what the decision runs: the pieces of
// `configuration`, if it has runs, and `undivided`, which may replace the pieces.
struct BuildOutcome {
  enum class Kind { kReady, kNoPieces, kNoUndivided };
  Kind kind = Kind::kReady;
  std::string message;  // why the pieces or `undivided` could not be built
};
struct Build {
  using Answer = BuildOutcome;
  Configuration configuration;
  MicroConfiguration undivided;  // if its engine is empty, nothing replaces the pieces
  size_t promised_bytes = 0;     // of the caller's workspace
  // True if `undivided` is to be built as a plan of the graph API that replaces the application's
  // plan.
  bool in_place = false;
  bool operator==(const Build&) const = default;
};

template <typename Question>
class Answers {
 public:
  // Returns null if the question was not answered yet.
  const typename Question::Answer* Find(const Question& question) const {
    const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const auto& known) { return known.first == question; });
    return entry == entries_.end() ? nullptr : &entry->second;
  }
  // Adds an answer. REQUIRES: the question has no answer yet. If Decide asks a question again that
  // was answered, it does not find the answer, and would ask the question forever.
  void Add(Question question, typename Question::Answer answer) {
    assert(Find(question) == nullptr);
    entries_.emplace_back(std::move(question), std::move(answer));
  }
  void Clear() { entries_.clear(); }
  const auto& entries() const { return entries_; }

 private:
  std::vector<std::pair<Question, typename Question::Answer>> entries_;
};

// A workspace plan's entry for a legacy kernel, as far as the real library confirms it.
// `candidates` are the entry's pieces and all undivided engines, with the workspace that the real
// library states. The library states no times. So an engine that the workspace plan does not name
// has, as its time, its place in the library's list.
struct ConfirmedLegacyKernel {
  Configuration configuration;
  std::vector<Candidate> candidates;
  size_t limit_bytes = 0;                        // the file's ceiling for each kernel
  NumericClass largest = NumericClass::kDirect;  // numeric class of the largest piece
};

// A workspace plan's entry for an execution plan: micro-batches with engines that the execution
// plan may use.
struct ConfirmedGraphKernel {
  Configuration configuration;
  size_t limit_bytes = 0;  // ceiling of the caller's workspace or, under a budget, of ucudnn's
  Reason reason;           // without the number of pieces, which is set later
};

// The part of the common budget that one kernel may use.
struct BudgetShare {
  size_t bytes = 0;        // the kernel's share of ucudnn's workspace
  size_t limit_bytes = 0;  // the ceiling for every kernel

  size_t usable_bytes() const { return std::min(bytes, limit_bytes); }
};

// A promise that this process or an earlier one has made for a plan of the graph API. It is smaller
// than the plan's need, or larger so that tiles may use more workspace than the plan.
struct KeptPromise {
  size_t workspace_bytes = 0;
  // The engine that keeps the promise in one piece. If more than the need was promised, it is the
  // plan's own engine. It is empty if only pieces keep the promise.
  EngineId undivided;
  // True if `undivided` may run even where pieces could: the plan is the first of a heuristics
  // list, its promise exceeds its need, or the promised configuration has another engine than the
  // plan.
  bool any_engine = false;
  bool operator==(const KeptPromise&) const = default;
};

// Facts about a call of the legacy API.
struct CallFacts {
  CallKind kind = CallKind::kPlain;
  size_t passed_bytes = 0;           // workspace that the caller passes
  std::optional<size_t> need_bytes;  // need of the named algorithm; none: the library refuses it
  bool graph_engines = false;        // engines of the graph API may serve this call
  // True if a captured call cannot use engines of the graph API or the workspace plan's entry,
  // although a later call outside the capture may be able to use them.
  bool more_outside = false;
  std::optional<Promise> told;  // the fastest promise within passed_bytes
  // The fastest promise within passed_bytes that pieces of the named algorithm keep alone.
  std::optional<Promise> told_alone;
  bool was_told = false;  // a promise, of any size, was given for this algorithm
  std::optional<ConfirmedLegacyKernel> confirmed;
  // True if the library could not confirm the workspace plan's entry now, but may do so at a later
  // call.
  bool confirmed_later = false;
};

// Facts about an execution plan of the graph API.
struct PlanFacts {
  size_t need_bytes = 0;
  bool deterministic = false;
  bool is_heuristics_first = false;  // the plan is the first of a heuristics list
  // True if the convolution is vast (IsVast), so that cuDNN has hardly any other engine for the
  // undivided convolution. The plan's tiles may then run other engines that are as exact as the
  // plan's engine. These engines need not propagate NaNs as strictly as the plan's engine.
  bool is_vast = false;
  std::optional<KeptPromise> told;  // the promise given under this user limit
  bool told_here = false;           // this process gave `told`, so it must not change
  bool store = false;               // other processes may add measurements to the store
  bool in_workspace_plan = false;   // the workspace plan has an entry for this plan
  // True if the workspace plan's entry cannot be applied yet, because the plan's share of the
  // budget is known only when the plan runs.
  bool file_waits = false;
  // The workspace plan's entry; none if it does not hold for this plan.
  std::optional<ConfirmedGraphKernel> confirmed;
  std::string unconfirmed_why;  // why the workspace plan's entry does not hold
};

// The decision that is in force until the new one replaces it.
struct EarlierDecision {
  bool divides = false;        // the decision runs pieces, which were compared
  bool lost_share = false;     // the budget was divided again, so the share no longer holds
  bool promises_less = false;  // a plan of the graph API was promised less than it needs
  size_t promised_bytes = 0;
};

struct Facts {
  ConvolutionProblem problem;
  EngineId asked;                                // the engine that the program named
  NumericClass numeric = NumericClass::kDirect;  // numeric class of `asked`
  size_t user_limit = kNoLimit;                  // ceiling of the caller's workspace, in bytes
  bool observes = false;                         // UCUDNN_MODE=observe: calls must not change
  bool deterministic = false;                    // the user demands deterministic engines
  bool strict_limit = false;
  bool tunes = true;  // this process may measure the kernel, now or later
  bool capturing = false;
  bool failed = false;             // a piece failed, or the plan that runs was found wrong
  TileUse tiles = TileUse::kNone;  // the purpose for which the kernel may be cut into tiles
  std::optional<BudgetShare> share;
  // Bytes of ucudnn's own workspace that every call can get. They are set aside for kernels for
  // which no engine runs without workspace.
  size_t assured_bytes = 0;
  std::optional<EarlierDecision> earlier;
  std::variant<CallFacts, PlanFacts> program;

  Answers<Measure> measured;
  Answers<FindTilings> tilings;
  Answers<FindSubstitutes> substitutes;
  Answers<Compare> compared;
  Answers<Build> built;
};

}  // namespace ucudnn::planning
