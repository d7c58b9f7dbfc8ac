// Decides how a call of the legacy API runs.
#include <algorithm>
#include <utility>

#include "convolution/engine_name.h"
#include "planning/decision/asker.h"
#include "planning/decision/promises.h"
#include "planning/owned_promise.h"

namespace ucudnn::planning {
namespace {

// Returns whether the pieces `promise.alone`, which can compute an identity activation, need
// exactly the promised workspace, and both the promise's plan and its undivided engine need less.
bool IsSizedForAlone(const Promise& promise) {
  const size_t own =
      std::max(promise.configuration.WorkspaceBytes(), promise.undivided.workspace_bytes);
  return promise.owned_bytes == 0 && !promise.alone.runs.empty() && promise.workspace_bytes > own &&
         promise.alone.WorkspaceBytes() == promise.workspace_bytes;
}

class CallDecider {
 public:
  CallDecider(const Facts& facts, Asker& ask)
      : facts_(facts),
        call_(std::get<CallFacts>(facts.program)),
        ask_(ask),
        decision_(AsAsked(facts, ReasonKind::kObserved)) {}

  Decision Decide();

 private:
  // Returns whether an engine other than the named algorithm may serve the call.
  bool any_engine() const {
    return call_.kind != CallKind::kMisaligned && call_.kind != CallKind::kIdentity;
  }
  // Returns whether the call may run `configuration`. Without graph_engines, the configuration must
  // consist of legacy algorithms on whole images.
  bool MayRun(const Configuration& configuration) const {
    return call_.graph_engines || !(UsesGraph(configuration) || configuration.IsTiled());
  }
  NamedRequest Named(size_t limit_bytes) const {
    // If the program was told that the kernel is deterministic, only deterministic engines keep the
    // promise.
    const bool deterministic =
        facts_.deterministic || (call_.told && call_.told->reported.deterministic);
    return {facts_.problem, facts_.asked,  facts_.numeric,
            limit_bytes,    deterministic, facts_.share.has_value()};
  }
  Rows Measured(const PromiseRequest& request) {
    const Rows& rows = ask_(Measure{{}, request});
    settled_ = rows.settled;
    late_ = rows.late;
    return rows;
  }

  // Returns whether `told` can be kept. A promise without an undivided engine cannot be kept if its
  // pieces were found wrong, or if ucudnn's workspace on this device is too small.
  bool Holds(const std::optional<Promise>& told) const {
    if (!told || !told->undivided.engine.empty()) return told.has_value();
    return !LacksMemory(told) && !ask_.WasWrong(told->configuration);
  }
  bool LacksMemory(const std::optional<Promise>& told) const {
    return told && told->undivided.engine.empty() && told->owned_bytes > facts_.assured_bytes;
  }
  // Sets `promise_` to a plan in the kernel's share of the budget, to the promise that the caller
  // was told, or to a new promise for a caller that did not ask. Sets it to none if the program's
  // own call should run or be refused.
  void Choose();
  std::optional<Promise> InBudget();
  // Returns the tilings that were measured within BudgetShare::limit_bytes, the limit that holds
  // for every kernel. So a tiling may exceed request.limit_bytes, the kernel's own share. Leaves
  // out tilings that were found slower than an undivided engine. Returns none if the call may not
  // run tiles.
  std::vector<Tiling> TilingsInShare(const std::vector<Candidate>& candidates,
                                     const PromiseRequest& request);
  // Returns `promise` with the fastest plan that is now known to fit the promise. REQUIRES:
  // `promise` was made before everything was measured, or its plan cannot run.
  Promise Improved(Promise promise);
  // Returns a promise within the workspace that the caller passes, whose plan is as exact and as
  // deterministic as the named algorithm. Returns none if the call should run unchanged; the
  // decision's reason then says why.
  std::optional<Promise> Unasked();
  // Returns the promise of the workspace plan's kernel, for a caller that did not ask before.
  std::optional<Promise> FromFile(size_t limit_bytes);
  std::optional<Promise> Unmeasured(bool over_limit);
  // `promise` is the best promise of `candidates` without tiles. Returns `promise` or, if tiles are
  // faster, a promise in tiles. Asks for grids within the larger of `limit_bytes` and the request's
  // limit.
  std::optional<Promise> OrTiles(std::optional<Promise> promise,
                                 const std::vector<Candidate>& candidates,
                                 const PromiseRequest& request, size_t limit_bytes);
  void NoteUnmeasured(bool over_limit);
  // Returns whether `promise` is kept only by pieces of an algorithm other than the named one.
  bool OnlyOthersPiecesFit(const Promise& promise) const {
    return promise.undivided.engine.empty() &&
           promise.configuration.Largest().engine != facts_.asked;
  }
  // Returns whether the plan of `promise_` may run. If the plan was found wrong and nothing can
  // replace it, sets `promise_` to none and returns kTrusted.
  Trust Trusted();
  // Returns the fastest known undivided engine that could run instead of the tiles of `promise_`
  // within the promised workspace. Returns an empty engine if `promise_` is not in tiles, or if a
  // workspace plan demands the tiles.
  MicroConfiguration InPlaceOfTiles() const;
  // Returns whether the named algorithm fits the limit and is as deterministic as demanded.
  bool AskedServes() const;
  bool MayRunAsAsked() const;
  void Explain();
  void NotPrepared(const std::string& why);
  void Run(bool trusted);
  void LookAgain(bool trusted);
  // Returns whether only the undivided engine may run, because a piece failed before or the plan
  // was found wrong.
  bool StaysWhole() const {
    return facts_.failed && promise_ && !promise_->undivided.engine.empty();
  }

  const Facts& facts_;
  const CallFacts& call_;
  Asker& ask_;
  Decision decision_;
  std::optional<Promise> promise_;
  bool told_ = false;  // the caller relies on `promise_`, or ucudnn provides the workspace for it
  bool in_budget_ = false;
  bool file_is_wrong_ = false;  // promised pieces of the workspace plan were found wrong or slower
  bool settled_ = true;
  bool late_ = false;     // some measurement is missing, and no time is left to make it
  std::string no_tiles_;  // why no tiles fit; empty if no tiles were sought
  // The message that tiles fit, but are slower than an undivided engine. Empty if no tiles were
  // found slower.
  std::string slower_;
};

std::optional<Promise> CallDecider::InBudget() {
  const size_t limit = facts_.share->usable_bytes();
  if (call_.confirmed) {
    auto promise = PromiseOfWorkspacePlan(*call_.confirmed, Named(limit), call_.told);
    if (promise) return promise;
  }
  const Rows rows =
      Measured(RequestFor(facts_.problem, facts_.share->limit_bytes, facts_.deterministic));
  PromiseRequest request = RequestForNamed(rows.candidates, Named(limit));
  return MakeOwnedPromise(rows.candidates, request, TilingsInShare(rows.candidates, request));
}

std::vector<Tiling> CallDecider::TilingsInShare(const std::vector<Candidate>& candidates,
                                                const PromiseRequest& request) {
  // Tiles run engines of the graph API, so such engines must be allowed to serve the call.
  if (!call_.graph_engines || !MayTile(facts_.tiles, candidates, request)) return {};
  const size_t need =
      std::max(call_.need_bytes.value_or(0), WorkspaceOfFastest(candidates, facts_.problem));
  // The question has the limit that holds for every kernel, because the kernel's share may change.
  // If `measures` is false, the answer has only tiles that were measured before, when the budget
  // was divided.
  const bool measures = MayMeasureTiles(facts_.tiles, need, request.limit_bytes);
  Tilings tilings = ask_(FindTilings{
      {}, RequestFor(facts_.problem, facts_.share->limit_bytes, facts_.deterministic), measures});
  slower_ = ask_.DropSlower(tilings.measured);
  if (measures) {
    settled_ &= tilings.settled;
    late_ |= tilings.late;
  }
  return tilings.measured;
}

std::optional<Promise> CallDecider::OrTiles(std::optional<Promise> promise,
                                            const std::vector<Candidate>& candidates,
                                            const PromiseRequest& request, size_t limit_bytes) {
  // Tiles run engines of the graph API, so such engines must be allowed to serve the call. Under a
  // budget, TilingsInShare finds the tiles instead.
  if (!call_.graph_engines || facts_.share || !MayTile(facts_.tiles, candidates, request)) {
    return promise;
  }
  // The grid of an earlier promise in tiles may have been chosen for the limit `limit_bytes`. The
  // question has the larger of the two limits, so that its answer includes that grid.
  FindTilings question{{}, request};
  question.request.limit_bytes = std::max(request.limit_bytes, limit_bytes);
  Tilings tilings = ask_(std::move(question));
  slower_ = ask_.DropSlower(tilings.measured);
  settled_ &= tilings.settled;
  late_ |= tilings.late;
  promise = OrInTiles(std::move(promise), tilings.measured, candidates, request);
  if (!promise || tilings.measured.empty()) no_tiles_ = WhyNoTiles(tilings);
  if (!slower_.empty()) no_tiles_ = slower_;
  return promise;
}

Promise CallDecider::Improved(Promise promise) {
  // The promise may exceed the user's limit, because pieces for an identity activation may need
  // more (IsSizedForAlone). A better plan must stay within the promise and within the limit.
  PromiseRequest request = RequestFor(
      facts_.problem, std::min(promise.workspace_bytes, promise.limit_bytes), facts_.deterministic);
  request.deterministic |= promise.reported.deterministic;
  // Engines must be as exact as the algorithm that the program names now, even if the promise
  // reported another engine.
  request.chosen = facts_.numeric;
  const Rows rows = Measured(request);
  const int n = facts_.problem.n;
  if (!promise.configuration.IsTiled() && UsesGraph(promise.configuration) &&
      FindUndivided(rows.candidates, promise.configuration.runs[0].micro.engine, n) == nullptr) {
    // The rows of the promise's graph engine are gone, because the engine was found wrong.
    promise = UndividedAlone(std::move(promise));
  }
  std::optional<Promise> better = MakePromise(rows.candidates, request);
  better = OrTiles(std::move(better), rows.candidates, request, promise.limit_bytes);
  if (!better) return promise;
  if (promise.configuration.Pieces() == 1) {
    // If the time of the present engine is unknown, no replacement can be compared with it.
    const Candidate* const present =
        FindUndivided(rows.candidates, promise.configuration.runs[0].micro.engine, n);
    if (present == nullptr) return promise;
    if (better->configuration.TimeMs() >= (1 - kHysteresis) * present->micro.time_ms) {
      promise.configuration.runs[0].micro = present->micro;
      promise.baselines = better->baselines;
      return promise;
    }
  }
  better->reported = promise.reported;
  better->workspace_bytes = promise.workspace_bytes;
  better->limit_bytes = promise.limit_bytes;
  better->alone = std::move(promise.alone);
  return std::move(*better);
}

std::optional<Promise> CallDecider::Unmeasured(bool over_limit) {
  const bool may_come = !settled_ && facts_.tunes && !late_;
  decision_.reason = {late_      ? ReasonKind::kNoTime
                      : may_come ? ReasonKind::kNotMeasuredYet
                                 : ReasonKind::kNotMeasured};
  if (!may_come) NoteUnmeasured(over_limit);
  return std::nullopt;
}

void CallDecider::NoteUnmeasured(bool over_limit) {
  if (over_limit) {
    decision_.notes.push_back({FallbackCause::kNotMeasuredOverLimit, {}});
  } else if (facts_.deterministic) {
    decision_.notes.push_back({FallbackCause::kNotMeasuredNotDeterministic, {}});
  }
}

std::optional<Promise> CallDecider::FromFile(size_t limit_bytes) {
  auto promise = PromiseOfWorkspacePlan(*call_.confirmed, Named(limit_bytes));
  if (!promise) return std::nullopt;
  if (!MayRun(promise->configuration)) promise = UndividedAlone(std::move(*promise));
  decision_.baselines = promise->baselines;
  decision_.reason = {ReasonKind::kWorkspacePlan, promise->configuration.Pieces()};
  decision_.reason.in_tiles = promise->configuration.IsTiled();
  return promise;
}

std::optional<Promise> CallDecider::Unasked() {
  const ConvolutionProblem& problem = facts_.problem;
  if (!call_.need_bytes) {
    // The real library refuses this algorithm. The call must reach the library even under a strict
    // limit. If another engine ran, the program would not see the library's error.
    decision_.promised_bytes = 0;
    decision_.reason = {ReasonKind::kDoesNotServe};
    return std::nullopt;
  }
  const size_t need = *call_.need_bytes, limit = decision_.limit_bytes;
  if (any_engine() && !facts_.share && call_.confirmed) {
    if (auto promise = FromFile(limit)) return promise;
  }
  PromiseRequest request = RequestFor(problem, limit, facts_.deterministic);
  request.chosen = facts_.numeric;
  std::vector<Candidate> candidates = Measured(request).candidates;
  if (!any_engine()) {
    std::erase_if(candidates,
                  [&](const Candidate& other) { return other.micro.engine != facts_.asked; });
  }
  if (candidates.empty()) return Unmeasured(need > limit);
  const Candidate* const own = FindUndivided(candidates, facts_.asked, problem.n);
  if (own != nullptr) decision_.configuration.runs[0].micro = own->micro;
  if (own == nullptr && need <= limit && !facts_.deterministic) {
    // Time or memory ran out before the named algorithm was measured. Therefore the named algorithm
    // may be faster than all measured engines.
    decision_.reason = {ReasonKind::kAskedNotMeasured};
    return std::nullopt;
  }
  request = RequestForNamed(candidates, Named(limit));
  decision_.baselines = FindBaselines(candidates, request);
  std::optional<Promise> promise = MakePromise(candidates, request);
  promise = OrTiles(std::move(promise), candidates, request, limit);
  const bool own_serves =
      need <= limit && own != nullptr && (own->micro.deterministic || !facts_.deterministic);
  if (promise && own_serves) {
    // The time of the named algorithm is compared with the times of the promised plan and of the
    // fastest plan. The promised plan may be slower than the fastest plan by kHysteresis. If only
    // the promised plan were compared, the named algorithm might run although it is slower than the
    // fastest plan by up to twice kHysteresis.
    const double worth_ms = (1 - kHysteresis) * own->micro.time_ms;
    const bool gains = promise->configuration.TimeMs() < worth_ms ||
                       *FastestPromisableMs(candidates, request) < worth_ms;
    if (!gains) {
      const bool in_part = late_ || (!settled_ && facts_.tunes);
      decision_.reason = {in_part ? ReasonKind::kNothingFasterInTime : ReasonKind::kNothingFaster};
      decision_.reason.no_tiles = slower_;
      return std::nullopt;
    }
  }
  if (!promise) {
    // Only pieces of the named algorithm itself may still fit. Their output is compared with the
    // output of the undivided named algorithm.
    promise = PiecesOf(facts_.asked, candidates, request);
    if (promise) promise->reference = decision_.configuration.runs[0].micro;
  }
  const bool knows_whole =
      std::any_of(candidates.begin(), candidates.end(),
                  [&](const Candidate& candidate) { return candidate.micro.IsWhole(problem.n); });
  if (!promise && !knows_whole) return Unmeasured(need > limit);
  if (!promise) {
    decision_.reason = {late_ ? ReasonKind::kNoTimeToFit : ReasonKind::kNothingFits};
    decision_.reason.limit_bytes = limit;
    decision_.reason.no_tiles = no_tiles_;
    if (late_) {
      NoteUnmeasured(need > limit);
    } else if (need <= call_.passed_bytes && (need > limit || facts_.deterministic)) {
      decision_.notes.push_back(
          {need > limit ? FallbackCause::kOverLimit : FallbackCause::kNoDeterministicEngine, {}});
    }
    return std::nullopt;
  }
  const int pieces = promise->configuration.Pieces();
  decision_.reason = {pieces > 1 ? ReasonKind::kDivided : ReasonKind::kInPlaceOf, pieces};
  decision_.reason.in_tiles = promise->configuration.IsTiled();
  if (pieces == 1) decision_.reason.no_tiles = no_tiles_;
  decision_.reason.detail = EngineName(facts_.problem.operation, facts_.asked);
  return promise;
}

void CallDecider::Choose() {
  if (any_engine()) {
    if (facts_.share) promise_ = InBudget();
    in_budget_ = promise_.has_value();
    if (!promise_ && Holds(call_.told)) promise_ = call_.told;
  }
  told_ = promise_.has_value();
  const bool without_graph = promise_ && !MayRun(promise_->configuration);
  const bool slower = promise_ && ask_.WasSlower(promise_->configuration);
  const bool wrong = slower || (promise_ && ask_.WasWrong(promise_->configuration));
  if (without_graph || wrong) promise_ = UndividedAlone(std::move(*promise_));
  file_is_wrong_ = wrong && promise_->of_workspace_plan;
  const bool may_improve = promise_ && !promise_->of_workspace_plan && !(in_budget_ && wrong);
  if (may_improve && (promise_->provisional || wrong || (without_graph && !facts_.capturing))) {
    promise_ = Improved(std::move(*promise_));
  }
  if (told_) return;
  promise_ = Unasked();
  if (promise_ && promise_->of_workspace_plan && ask_.WasWrong(promise_->configuration)) {
    promise_ = AskedServes() ? std::nullopt : std::optional(UndividedAlone(std::move(*promise_)));
    decision_.reason = {ReasonKind::kWorkspacePlanWrong};
  }
  if (promise_ || any_engine() || decision_.promised_bytes <= decision_.limit_bytes) return;
  // The named algorithm needs more than the caller was told to pass, or more than the user's limit.
  // No other algorithm supports an identity activation, and none is known to support pointers that
  // are aligned to less than 16 bytes. So pieces of the named algorithm itself run.
  if (!Holds(call_.told_alone)) return;
  promise_ = call_.told_alone;
  told_ = true;
  const Configuration& told = promise_->configuration;
  if (UsesGraph(told) || told.IsTiled() || ask_.WasWrong(told)) {
    promise_ = UndividedAlone(std::move(*promise_));
  }
}

MicroConfiguration CallDecider::InPlaceOfTiles() const {
  if (!promise_->configuration.IsTiled() || promise_->of_workspace_plan) return {};
  const MicroConfiguration& fastest = promise_->baselines.any_api;
  // The promised workspace may be smaller than the limit under which the baselines were found.
  const bool fits = !told_ || in_budget_ || fastest.workspace_bytes <= promise_->workspace_bytes;
  return fits && !fastest.engine.empty() ? fastest : promise_->undivided;
}

Trust CallDecider::Trusted() {
  if (!promise_ || StaysWhole() || !NeedsTrust(promise_->configuration)) return {};
  const bool alone = promise_->undivided.engine.empty();
  const MicroConfiguration& against = alone ? promise_->reference : promise_->undivided;
  // Without an undivided engine and a `reference`, the pieces cannot be compared with anything.
  if (against.engine.empty()) return {};
  const Proof proof = ask_.wrong_plans() < kMostWrong ? Proof::kOnce : Proof::kKnown;
  Trust trust =
      ask_(Compare{promise_->configuration, against, proof, facts_.tiles == TileUse::kToGain,
                   alone ? MicroConfiguration() : InPlaceOfTiles()});
  if (trust.kind != Trust::Kind::kWrong) return trust;
  if (alone) {
    promise_.reset();
    return {};
  }
  trust.kind = Trust::Kind::kUnknown;
  return trust;
}

void CallDecider::Explain() {
  decision_.limit_bytes = promise_->limit_bytes;
  decision_.baselines = promise_->baselines;
  const int pieces = promise_->configuration.Pieces();
  const bool room_for_identity = IsSizedForAlone(*promise_);
  const ReasonKind because = file_is_wrong_                       ? ReasonKind::kWorkspacePlanWrong
                             : promise_->of_workspace_plan        ? ReasonKind::kWorkspacePlan
                             : room_for_identity                  ? ReasonKind::kAsToldForIdentity
                             : OnlyOthersPiecesFit(*promise_)     ? ReasonKind::kDividedByAnother
                             : pieces > 1                         ? ReasonKind::kDivided
                             : UsesGraph(promise_->configuration) ? ReasonKind::kGraphEngine
                             : promise_->owned_bytes > 0          ? ReasonKind::kOwnWorkspace
                                                                  : ReasonKind::kAsTold;
  decision_.reason = {because, pieces};
  decision_.reason.in_tiles = promise_->configuration.IsTiled();
  if (pieces == 1) decision_.reason.no_tiles = slower_.empty() ? promise_->no_tiles : slower_;
  if (because == ReasonKind::kDividedByAnother) {
    decision_.reason.detail = EngineName(facts_.problem.operation, facts_.asked);
  }
}

bool CallDecider::AskedServes() const {
  return decision_.promised_bytes <= decision_.limit_bytes &&
         (!facts_.deterministic || decision_.configuration.Largest().deterministic);
}

// Returns whether the program's own call may run instead of a plan that was not compared, could not
// be built, or had a piece that failed. The call may run if AskedServes(), because then the plan
// would only have gained time. Otherwise it may run only if no undivided engine keeps the promise,
// and only in two cases:
//  - The call fits the workspace that the caller passes.
//  - any_engine() is true, and nothing was ever told for this algorithm. The program then sees the
//    real library's own error.
// In neither case may it run if the caller was told a promise and a strict limit forbids the call.
bool CallDecider::MayRunAsAsked() const {
  const bool real =
      decision_.promised_bytes <= call_.passed_bytes || (any_engine() && !call_.was_told);
  const bool over = facts_.strict_limit && decision_.promised_bytes > facts_.user_limit;
  return AskedServes() || (promise_->undivided.engine.empty() && real && !(over && call_.was_told));
}

void CallDecider::NotPrepared(const std::string& why) {
  decision_.notes.push_back({FallbackCause::kNotPrepared, {}});
  decision_.reason = {ReasonKind::kNotPrepared};
  decision_.reason.detail = why;
}

void CallDecider::Run(bool trusted) {
  const MicroConfiguration& undivided = promise_->undivided;
  const bool has_whole = !undivided.engine.empty();
  const bool whole_only = has_whole && (StaysWhole() || !trusted);
  const size_t bytes = promise_->workspace_bytes;
  if (!whole_only) {
    const BuildOutcome& built = ask_(Build{promise_->configuration, undivided, bytes});
    if (built.kind == BuildOutcome::Kind::kReady) {
      decision_.action = CallAction::kSchedule;
      decision_.configuration = promise_->configuration;
      decision_.undivided = undivided;
      const size_t need = call_.need_bytes.value_or(kNoLimit);
      const bool over = facts_.strict_limit && need > facts_.user_limit;
      const bool real = (trusted || !told_) && need <= call_.passed_bytes && !over;
      decision_.fallback = has_whole ? FallbackKind::kUndivided
                           : real    ? FallbackKind::kReal
                                     : FallbackKind::kPieces;
      decision_.ran_here = promise_->ran_here;
      decision_.promised_bytes = bytes;
      decision_.owned_bytes = promise_->owned_bytes;
      return;
    }
    NotPrepared(built.message);
  }
  if (!has_whole || (!told_ && MayRunAsAsked())) return;
  // The undivided engine is built for its own need, which may be less than the promised workspace
  // and less than the need of the caller's own algorithm.
  const BuildOutcome& built = ask_(Build{{}, undivided, undivided.workspace_bytes});
  if (built.kind != BuildOutcome::Kind::kReady) {
    if (whole_only) NotPrepared(built.message);
    return;
  }
  decision_.action = CallAction::kSchedule;
  decision_.configuration = {{{undivided, 1}}};
  decision_.undivided = undivided;
  decision_.fallback = FallbackKind::kUndivided;
  decision_.promised_bytes = undivided.workspace_bytes;
  if (whole_only) {
    std::string why = std::move(decision_.reason.detail);
    decision_.reason = {facts_.failed ? ReasonKind::kUndividedAfterFailure
                                      : ReasonKind::kUndividedNotCompared};
    if (!facts_.failed) decision_.reason.detail = std::move(why);
  }
}

void CallDecider::LookAgain(bool trusted) {
  const bool more = (facts_.capturing && call_.more_outside) || call_.confirmed_later ||
                    (!settled_ && (facts_.tunes || !trusted)) || LacksMemory(call_.told) ||
                    LacksMemory(call_.told_alone);
  if (!more || StaysWhole()) return;
  // Nothing can be measured or built during a capture. So a decision of the capture is replaced at
  // the first call after it.
  decision_.look_again = facts_.capturing ? When::kNextCall : When::kLater;
}

Decision CallDecider::Decide() {
  if (facts_.observes) {
    LookAgain(true);
    return decision_;
  }
  Choose();
  const Trust trust = Trusted();
  const bool trusted = trust.kind == Trust::Kind::kTrusted;
  const bool inside = !in_budget_ || (facts_.earlier && !facts_.earlier->lost_share);
  if (!trusted && inside && facts_.earlier && facts_.earlier->divides) {
    // The earlier plan was compared. So it stays in force until the better plan was compared, too.
    decision_.standing = true;
    decision_.look_again = When::kLater;
    return decision_;
  }
  if (told_ && promise_) Explain();
  const auto over_strict = [&] {
    return facts_.strict_limit && decision_.promised_bytes > facts_.user_limit;
  };
  if (!promise_ && over_strict()) {
    decision_.action = CallAction::kRefusal;
    decision_.reason = {ReasonKind::kOverStrictLimit};
    decision_.reason.bytes = decision_.promised_bytes;
    decision_.reason.limit_bytes = facts_.user_limit;
    decision_.notes.push_back({FallbackCause::kOverStrictLimit, {}});
  }
  const bool as_asked = promise_ && promise_->owned_bytes == 0 &&
                        promise_->configuration.Pieces() == 1 &&
                        promise_->configuration.runs[0].micro.engine == facts_.asked;
  if (as_asked) {
    decision_.configuration = promise_->configuration;
    decision_.promised_bytes = promise_->workspace_bytes;
  } else if (promise_ && !told_ && (facts_.failed || !trusted) && MayRunAsAsked()) {
    settled_ = facts_.failed;
    decision_.reason = {facts_.failed ? ReasonKind::kAskedAfterFailure
                                      : ReasonKind::kAskedNotCompared};
    if (!facts_.failed) decision_.reason.detail = trust.message;
  } else if (promise_) {
    if (!trusted) decision_.reason.detail = trust.message;
    settled_ &= trusted;
    Run(trusted);
  }
  const bool exceeds = decision_.action == CallAction::kReal && !as_asked && over_strict();
  if (exceeds) decision_.action = CallAction::kRefusal;
  LookAgain(trusted);
  return decision_;
}

}  // namespace

Decision DecideCall(const Facts& facts, Asker& ask) { return CallDecider(facts, ask).Decide(); }

}  // namespace ucudnn::planning
