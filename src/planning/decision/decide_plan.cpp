// Decides how an execution plan of the graph API runs, and which workspace it promises.
#include <algorithm>
#include <utility>

#include "planning/decision/asker.h"
#include "planning/owned_promise.h"

namespace ucudnn::planning {
namespace {

using Substitutes = std::vector<MicroConfiguration>;

// Returns the row for all `n` images among `candidates`, which are rows of one engine; null if the
// engine was not measured on all images.
const MicroConfiguration* UndividedOf(const std::vector<Candidate>& candidates, int n) {
  for (const Candidate& candidate : candidates) {
    const MicroConfiguration& micro = candidate.micro;
    if (micro.IsWhole(n) && micro.time_ms >= 0) return &micro;
  }
  return nullptr;
}

class PlanDecider {
 public:
  PlanDecider(const Facts& facts, Asker& ask)
      : facts_(facts),
        plan_(std::get<PlanFacts>(facts.program)),
        ask_(ask),
        decision_(AsAsked(facts, ReasonKind::kObserved)),
        limit_(std::min(facts.user_limit, plan_.need_bytes)),
        // If the workspace plan gives this execution plan a share of the budget, the execution plan
        // must promise to use no workspace of the caller, however much it needs.
        must_shrink_(plan_.need_bytes > facts.user_limit ||
                     (facts.share && plan_.in_workspace_plan)) {}

  Decision Decide();

 private:
  PromiseRequest Request(size_t limit_bytes) const {
    return RequestFor(facts_.problem, limit_bytes, facts_.deterministic);
  }
  // Returns the rows of `engine`, which is the plan's own engine or a substitute. A substitute is
  // measured only on the whole mini-batch.
  Rows Measured(const EngineId& engine, const PromiseRequest& request) {
    const Rows& rows = ask_(Measure{engine, request});
    settled_ &= rows.settled;
    if (engine == facts_.asked) {
      measured_ = !rows.candidates.empty();
      late_ = rows.late;
    }
    return rows;
  }

  // Follows the workspace plan's entry for this execution plan. If the entry does not hold for the
  // execution plan or cannot be built, adds a note that says why, and returns false.
  bool FollowFile();
  void FitUnder();
  // Decides for `promise`, which only its pieces can keep, because it has no undivided engine.
  void RunAlone(const Promise& promise, const KeptPromise* told, const Trust& trust);
  void GainTime();
  // `promise` runs the plan's own engine within the plan's need. Returns `promise` or, if tiles are
  // faster by kHysteresis, a promise in tiles. Tiles that need more workspace than the plan must
  // also be faster by kHysteresis than the best promise that needs no more than the plan.
  Promise OrTiles(Promise promise, const std::vector<Candidate>& own);
  // Returns whether the program was told more workspace than the plan needs and may still rely on
  // that. Tiles may then use that workspace.
  bool HasRoom() const;
  // Returns the most workspace that tiles may use if the plan itself fits the limit.
  size_t RoomForTiles() const;
  // Promises `bytes`, which is more than the plan needs. Notes if an earlier promise was lost
  // because it exceeds the user's limit.
  void GiveRoom(size_t bytes);
  // Makes a promise of less than the plan needs. If `told` is set, the promise has the size of
  // `told`; otherwise it fits the limit. If nothing can keep such a promise, returns none, and
  // `why_` says why.
  std::optional<Promise> Within(const KeptPromise* told);
  // Returns a promise that pieces of the plan's own engine keep alone, for plans that no undivided
  // engine can replace within the limit.
  std::optional<Promise> PiecesAlone(const KeptPromise* told, const PromiseRequest& request);
  // Returns the fastest pieces of the plan's own engine or, if no pieces fit, tiles of that engine.
  std::optional<Promise> OwnPieces(const KeptPromise* told, const PromiseRequest& request);
  // Returns grids of tiles of the plan's own engine or, for a vast plan, of any engine that may
  // serve its tiles.
  Tilings AskTilings(const PromiseRequest& request, bool may_measure = true);
  std::optional<MicroConfiguration> BestSubstitute(const KeptPromise* told,
                                                   const PromiseRequest& request);
  Promise InBudget(const MicroConfiguration& other);
  // Returns whether the plan of `promise` may run. Its pieces must have been found correct, and its
  // tiles also faster than the undivided engine `faster_than`, if that is set. An undivided plan
  // needs no comparison unless `engines_differ` is true.
  Trust Compared(const Promise& promise, const MicroConfiguration& faster_than,
                 bool engines_differ = false);
  // Runs the application's own plan or, if the plan exceeds a strict limit, refuses it.
  void Stay(Reason why);
  // Runs the application's own plan, because the schedule could not be built.
  void StayUnprepared(const std::string& why);
  void Schedule(const Promise& promise, bool in_place);
  void LookAgain();

  const Facts& facts_;
  const PlanFacts& plan_;
  Asker& ask_;
  Decision decision_;
  const size_t limit_;
  const bool must_shrink_;
  Reason why_;
  // If settled_, measured_ or compared_ is false, a later call may know more.
  bool settled_ = true;   // everything that the policy wants was measured
  bool measured_ = true;  // some row of the plan's own engine is known
  bool late_ = false;     // no time was left to measure the plan's own engine or tiles
  bool compared_ = true;  // the plan's division was compared and could be built
  std::string no_tiles_;  // why no tiles fit; empty if no tiles were sought
  // The message that tiles fit, but are slower than an undivided engine. Empty if no tiles were
  // found slower.
  std::string slower_;
};

void PlanDecider::Stay(Reason why) {
  decision_.reason = std::move(why);
  if (!must_shrink_) return;
  if (facts_.strict_limit) decision_.action = CallAction::kRefusal;
  decision_.notes.push_back({FallbackCause::kOverLimit, Sentence(decision_.reason)});
}

void PlanDecider::StayUnprepared(const std::string& why) {
  decision_.notes.push_back({FallbackCause::kNotPrepared, why});
  Reason reason = {ReasonKind::kNotPrepared};
  reason.detail = why;
  Stay(std::move(reason));
}

Trust PlanDecider::Compared(const Promise& promise, const MicroConfiguration& faster_than,
                            bool engines_differ) {
  if (promise.configuration.Pieces() < 2 && !engines_differ) return {};
  if (ask_.wrong_plans() >= kMostWrong) return {Trust::Kind::kWrong, {}};
  if (promise.ran_here) {
    return ask_(Compare{promise.configuration, promise.reference, Proof::kHere});
  }
  const bool tiled = promise.configuration.IsTiled();
  return ask_(Compare{promise.configuration, promise.undivided, Proof::kOnce, !must_shrink_,
                      tiled ? faster_than : MicroConfiguration()});
}

// Runs `promise`. `in_place` means that the promise is smaller than the plan's need; then the
// promise's undivided engine replaces the application's plan.
void PlanDecider::Schedule(const Promise& promise, bool in_place) {
  decision_.action = CallAction::kSchedule;
  decision_.configuration = promise.configuration;
  decision_.undivided = promise.undivided;
  decision_.fallback = in_place ? FallbackKind::kUndivided : FallbackKind::kReal;
  decision_.promises_less = in_place;
  decision_.promised_bytes = promise.workspace_bytes;
  decision_.owned_bytes = promise.owned_bytes;
  decision_.baselines = promise.baselines;
}

std::optional<MicroConfiguration> PlanDecider::BestSubstitute(const KeptPromise* told,
                                                              const PromiseRequest& request) {
  const Substitutes& others =
      ask_(FindSubstitutes{told != nullptr ? told->undivided : EngineId(), request.limit_bytes});
  if (others.empty()) return std::nullopt;
  // If `runs` is false, pieces are expected to run, and the substitute runs only after they fail.
  // The speed of the substitute then does not matter, so it is not measured.
  const bool runs =
      facts_.share || (told != nullptr ? told->any_engine : plan_.is_heuristics_first);
  if (others.size() < 2 || !runs) return others[0];
  // others[0] is the engine that the heuristics expect to be the fastest. Another engine is
  // preferred only if that engine and others[0] were timed.
  const MicroConfiguration* best = nullptr;
  double best_ms = 0;
  for (const MicroConfiguration& other : others) {
    const Rows rows = Measured(other.engine, request);
    const MicroConfiguration* const undivided = UndividedOf(rows.candidates, facts_.problem.n);
    if (undivided == nullptr && best == nullptr) return other;
    if (undivided == nullptr || (best != nullptr && undivided->time_ms >= best_ms)) continue;
    best = &other;
    best_ms = undivided->time_ms;
  }
  return *best;
}

Promise PlanDecider::InBudget(const MicroConfiguration& other) {
  const int n = facts_.problem.n;
  const PromiseRequest request = Request(facts_.share->limit_bytes);
  const size_t limit = facts_.share->usable_bytes();
  const std::vector<Candidate> candidates =
      CandidatesInBudget(Measured(facts_.asked, request).candidates,
                         Measured(other.engine, request).candidates, n, plan_.need_bytes);
  std::vector<Tiling> tilings;
  if (MayTile(facts_.tiles, candidates, Request(limit))) {
    const bool measures = MayMeasureTiles(facts_.tiles, plan_.need_bytes, limit);
    tilings = AskTilings(request, measures).measured;
  }
  if (auto promise = MakeOwnedPromise(candidates, Request(limit), tilings)) {
    return std::move(*promise);
  }
  // The undivided engine was not timed. It can be promised nevertheless, because it runs without
  // workspace.
  Promise promise;
  promise.undivided = {other.engine, n, kUnknownTime, 0, other.deterministic};
  promise.configuration = {{{promise.undivided, 1}}};
  promise.limit_bytes = limit;
  return promise;
}

Tilings PlanDecider::AskTilings(const PromiseRequest& request, bool may_measure) {
  const EngineId engine = plan_.is_vast ? EngineId() : facts_.asked;
  Tilings tilings = ask_(FindTilings{engine, request, may_measure});
  slower_ = ask_.DropSlower(tilings.measured);
  if (!slower_.empty()) no_tiles_ = slower_;
  if (!may_measure) return tilings;
  settled_ &= tilings.settled;
  late_ |= tilings.late;
  if (tilings.measured.empty() && slower_.empty()) no_tiles_ = WhyNoTiles(tilings);
  return tilings;
}

std::optional<Promise> PlanDecider::OwnPieces(const KeptPromise* told,
                                              const PromiseRequest& request) {
  const Rows rows = Measured(facts_.asked, request);
  std::optional<Promise> promise = PiecesOf(facts_.asked, rows.candidates, request);
  // If only pieces keep the promise, tiles may be needed even if the options allow none now.
  const bool by_pieces = told != nullptr && told->undivided.empty();
  if (promise || (facts_.tiles == TileUse::kNone && !by_pieces)) return promise;
  // An earlier process that promised tiles found their grids within limit_, so the store has the
  // measurements of these grids. Only if none of them fits `request`, grids are sought within the
  // limit of `request`.
  auto tiles = FastestTiles(AskTilings(Request(limit_)).measured, request, facts_.numeric);
  if (!tiles) tiles = FastestTiles(AskTilings(request).measured, request, facts_.numeric);
  if (!tiles) return std::nullopt;
  promise.emplace();
  promise->workspace_bytes = tiles->WorkspaceBytes();
  promise->reported = {facts_.asked, facts_.problem.n, tiles->TimeMs(), promise->workspace_bytes,
                       tiles->Deterministic()};
  promise->configuration = std::move(*tiles);
  promise->limit_bytes = request.limit_bytes;
  return promise;
}

std::optional<Promise> PlanDecider::Within(const KeptPromise* told) {
  const size_t limit = told != nullptr && !facts_.share ? told->workspace_bytes : limit_;
  const PromiseRequest request = Request(limit);
  const std::optional<MicroConfiguration> other = BestSubstitute(told, request);
  if (!other && !facts_.share) {
    if (auto alone = PiecesAlone(told, request)) return alone;
  }
  if (!other) {
    why_ = {ReasonKind::kNoSubstituteFits};
    why_.limit_bytes = limit;
    why_.no_tiles = no_tiles_;
    return std::nullopt;
  }
  if (facts_.share) return InBudget(*other);
  std::optional<Promise> promise = OwnPieces(told, request);
  const Rows undivided_rows = Measured(other->engine, request);
  // If the substitute was not timed, the workspace that the library states for it is used.
  const MicroConfiguration* const timed = UndividedOf(undivided_rows.candidates, facts_.problem.n);
  const MicroConfiguration undivided = timed != nullptr ? *timed : *other;
  // A divided plan keeps its own engine and knobs. Applications that time plans against each other
  // build the fastest plan again from its engine and knobs, also in another process. Applications
  // that time nothing take the first plan of a list, so only that plan may change its engine.
  const bool any_engine = told != nullptr ? told->any_engine : plan_.is_heuristics_first;
  // Tiles must be faster than the undivided engine by kHysteresis. Pieces of the mini-batch may
  // even be slower than the undivided engine, by at most kHysteresis.
  const bool other_is_faster =
      promise && undivided.time_ms >= 0 &&
      (promise->configuration.IsTiled()
           ? (1 - kHysteresis) * undivided.time_ms <= promise->configuration.TimeMs()
           : undivided.time_ms < (1 - kHysteresis) * promise->configuration.TimeMs());
  const size_t pieces_bytes = promise ? promise->configuration.WorkspaceBytes() : 0;
  // If only another engine could keep a promise, nothing is promised, except for the first plan of
  // a list. Otherwise an application that times plans would time that one engine under the names of
  // many plans. The promise might also be too small for pieces that are found later.
  if (!promise && !any_engine && told == nullptr) {
    why_ = {late_        ? ReasonKind::kNoTimeForDivisions
            : !measured_ ? ReasonKind::kDivisionsNotMeasured
                         : ReasonKind::kNoDivisionFits};
    why_.limit_bytes = limit;
    why_.no_tiles = no_tiles_;
    return std::nullopt;
  }
  // The first plan of a list must run something within the limit. A plan that has reported a
  // smaller workspace before must do so, too, even if its pieces no longer fit.
  if (!promise || (any_engine && other_is_faster)) {
    promise = promise.value_or(Promise{});
    promise->configuration = {{{undivided, 1}}};
  }
  promise->undivided = undivided;
  if (undivided.time_ms >= 0) promise->baselines = {undivided, undivided};
  // A promise that was told keeps its size, because every program that builds this plan must get
  // the same answer.
  promise->workspace_bytes =
      told != nullptr ? told->workspace_bytes : std::max(pieces_bytes, undivided.workspace_bytes);
  promise->limit_bytes = limit;
  return promise;
}

std::optional<Promise> PlanDecider::PiecesAlone(const KeptPromise* told,
                                                const PromiseRequest& request) {
  std::optional<Promise> promise = OwnPieces(told, request);
  if (!promise) return std::nullopt;
  promise->reference = AsAsked(facts_, ReasonKind::kObserved).configuration.runs[0].micro;
  promise->ran_here = true;
  if (told != nullptr) promise->workspace_bytes = told->workspace_bytes;
  return promise;
}

bool PlanDecider::FollowFile() {
  const auto fails = [&](const std::string& why) {
    decision_.notes.push_back({FallbackCause::kWorkspacePlanDoesNotHold, why});
    return false;
  };
  if (!plan_.confirmed) return fails(plan_.unconfirmed_why);
  const ConfirmedGraphKernel& confirmed = *plan_.confirmed;
  const bool in_budget = facts_.share.has_value();
  const size_t bytes = confirmed.configuration.WorkspaceBytes();
  Promise promise;
  promise.configuration = confirmed.configuration;
  promise.limit_bytes = confirmed.limit_bytes;
  if (promise.configuration.Pieces() == 1 && !in_budget) {
    // The file's engine runs the whole mini-batch undivided. It may be the plan's own engine.
    promise.undivided = promise.configuration.runs[0].micro;
    promise.workspace_bytes = bytes;
  } else {
    // An undivided engine must keep the promise. An engine that fits the workspace of the pieces
    // comes first. If there is none, the promise grows to the need of an engine within the file's
    // limit.
    Substitutes others = ask_(FindSubstitutes{{}, in_budget ? 0 : bytes});
    if (others.empty() && !in_budget) others = ask_(FindSubstitutes{{}, confirmed.limit_bytes});
    if (others.empty()) return fails(Sentence(Detail::kNothingUndivided));
    promise.undivided = others[0];
    if (in_budget) {
      promise.undivided.workspace_bytes = 0;
      promise.owned_bytes = bytes;
    } else {
      promise.workspace_bytes = std::max(bytes, promise.undivided.workspace_bytes);
    }
  }
  // A promise that this process has given must not grow.
  if (plan_.told && plan_.told_here && promise.workspace_bytes > plan_.told->workspace_bytes) {
    return fails(Sentence(Detail::kPromisedBefore));
  }
  const bool divides = promise.configuration.Pieces() > 1;
  const bool other_engine = promise.configuration.runs[0].micro.engine != facts_.asked;
  const Trust trust = Compared(promise, {}, in_budget && other_engine);
  const bool trusted = trust.kind == Trust::Kind::kTrusted;
  const bool in_place = in_budget || promise.undivided.engine != facts_.asked;
  if (!trusted) promise = UndividedAlone(std::move(promise));
  const bool runs_pieces = promise.configuration.Pieces() > 1 || promise.owned_bytes > 0;
  const BuildOutcome& built = ask_(Build{runs_pieces ? promise.configuration : Configuration{},
                                         promise.undivided, promise.workspace_bytes, in_place});
  if (built.kind != BuildOutcome::Kind::kReady) return fails(built.message);
  compared_ &= trust.kind != Trust::Kind::kUnknown;
  const size_t told_bytes = in_place ? promise.workspace_bytes : plan_.need_bytes;
  Schedule(promise, in_place);
  decision_.promised_bytes = told_bytes;
  decision_.limit_bytes = promise.limit_bytes;
  if (!in_place && !runs_pieces) decision_.action = CallAction::kReal;
  if (in_place) {
    decision_.promise = {promise.workspace_bytes, promise.undivided.engine,
                         plan_.is_heuristics_first};
  }
  decision_.reason = confirmed.reason;
  if (trust.kind == Trust::Kind::kUnknown) {
    decision_.reason = {ReasonKind::kUndividedNotCompared};
    decision_.reason.detail = trust.message;
  } else if (divides && !trusted) {
    decision_.reason = {ReasonKind::kWorkspacePlanWrong};
  }
  decision_.reason.pieces = promise.configuration.Pieces();
  decision_.reason.in_tiles = promise.configuration.IsTiled();
  return true;
}

bool PlanDecider::HasRoom() const {
  return plan_.told && plan_.is_vast && !must_shrink_ &&
         plan_.told->workspace_bytes > plan_.need_bytes &&
         plan_.told->workspace_bytes <= facts_.user_limit;
}

size_t PlanDecider::RoomForTiles() const {
  if (HasRoom()) return plan_.told->workspace_bytes;
  // More than the need may be promised only by the first decision about a vast plan without a
  // budget, and only if the user has set a limit.
  const bool may_tell = plan_.is_vast && !facts_.earlier && !facts_.share;
  return may_tell && facts_.user_limit != kNoLimit ? facts_.user_limit : limit_;
}

Promise PlanDecider::OrTiles(Promise promise, const std::vector<Candidate>& own) {
  const PromiseRequest needs = Request(limit_), room = Request(RoomForTiles());
  const std::vector<Tiling> tilings = AskTilings(room).measured;
  promise = OrInTiles(std::move(promise), tilings, own, needs).value();
  if (room == needs) return promise;
  Promise larger = OrInTiles(promise, tilings, own, room).value();
  const double worth_ms = (1 - kHysteresis) * promise.configuration.TimeMs();
  return larger.configuration.TimeMs() < worth_ms ? larger : promise;
}

void PlanDecider::GiveRoom(size_t bytes) {
  const bool over_limit = plan_.told && plan_.told->workspace_bytes > facts_.user_limit;
  if (over_limit) {
    decision_.notes.push_back({FallbackCause::kPromiseLost, Sentence(Detail::kPromiseOverLimit)});
  }
  decision_.promises_more = decision_.gives_promise = true;
  decision_.replaces_promise = plan_.told.has_value();
  decision_.promise = {bytes, facts_.asked, true};
}

void PlanDecider::GainTime() {
  const PromiseRequest request = Request(limit_);
  const Rows rows = Measured(facts_.asked, request);
  std::optional<Promise> promise = MakePromise(rows.candidates, request);
  // If the undivided plan was not timed, there is no `promise`, and nothing to compare tiles with.
  if (promise && facts_.tiles == TileUse::kToGain) {
    promise = OrTiles(std::move(*promise), rows.candidates);
  }
  if (promise) decision_.baselines = promise->baselines;
  if (!promise || promise->configuration.Pieces() == 1) {
    if (promise) decision_.configuration = promise->configuration;
    const bool known = !rows.candidates.empty();
    const bool in_part = late_ || (!rows.settled && facts_.tunes);
    Reason why = {in_part && known ? ReasonKind::kNothingFasterInTime
                  : late_          ? ReasonKind::kNoTime
                  : known          ? ReasonKind::kNothingFasterAnywhere
                                   : ReasonKind::kNotMeasured};
    // A vast plan is slow without tiles. So its reason says why no tiles run, even if no tiles fit.
    why.no_tiles = plan_.is_vast ? no_tiles_ : slower_;
    return Stay(std::move(why));
  }
  const Trust trust = Compared(*promise, promise->baselines.any_api);
  if (trust.kind == Trust::Kind::kWrong) return Stay({ReasonKind::kAllDivisionsWrong});
  if (trust.kind == Trust::Kind::kUnknown) {
    compared_ = false;
    decision_.reason = {ReasonKind::kAskedNotCompared};
    decision_.reason.detail = trust.message;
    return;
  }
  const BuildOutcome& built =
      ask_(Build{promise->configuration, promise->undivided, promise->workspace_bytes});
  if (built.kind != BuildOutcome::Kind::kReady) {
    compared_ = false;
    return StayUnprepared(built.message);
  }
  Schedule(*promise, false);
  if (decision_.promised_bytes > plan_.need_bytes && !HasRoom()) {
    GiveRoom(decision_.promised_bytes);
  }
  decision_.reason = {ReasonKind::kDivided, promise->configuration.Pieces()};
  decision_.reason.in_tiles = promise->configuration.IsTiled();
}

void PlanDecider::RunAlone(const Promise& promise, const KeptPromise* told, const Trust& trust) {
  const BuildOutcome& built = ask_(Build{promise.configuration, {}, promise.workspace_bytes});
  const bool ready = built.kind == BuildOutcome::Kind::kReady;
  if (trust.kind != Trust::Kind::kTrusted || !ready) {
    Reason why = {ReasonKind::kNoSubstituteFits};
    why.limit_bytes = promise.limit_bytes;
    if (told != nullptr && !plan_.told_here) {
      decision_.notes.push_back({FallbackCause::kPromiseLost, Sentence(why)});
    }
    return Stay(std::move(why));
  }
  Schedule(promise, true);
  decision_.fallback = FallbackKind::kPieces;
  decision_.ran_here = true;
  decision_.promise = told != nullptr ? *told : KeptPromise{promise.workspace_bytes, {}, false};
  decision_.gives_promise = told == nullptr;
  decision_.reason = {ReasonKind::kDivided, promise.configuration.Pieces()};
  decision_.reason.in_tiles = promise.configuration.IsTiled();
}

void PlanDecider::FitUnder() {
  const KeptPromise* told = plan_.told ? &*plan_.told : nullptr;
  std::optional<Promise> promise;
  // Any program may have written the store, so a stored promise that exceeds the limit is not kept.
  const bool too_large = told != nullptr && !plan_.told_here && told->workspace_bytes > limit_;
  if (!too_large) promise = Within(told);
  if (!promise && told != nullptr && !plan_.told_here) {
    std::string why = too_large ? Sentence(Detail::kPromiseOverLimit) : Sentence(why_);
    decision_.notes.push_back({FallbackCause::kPromiseLost, std::move(why)});
    decision_.replaces_promise = true;
    told = nullptr;
    promise = Within(told);
  }
  if (!promise) return Stay(why_);
  // Tiles must be faster than the engine that may run instead of them. Under a budget, this is the
  // fastest engine of any API; for the first plan of a list, it is the substitute. For any other
  // plan there is no such engine.
  const bool replaces = told != nullptr ? told->any_engine : plan_.is_heuristics_first;
  const Trust trust = Compared(*promise, facts_.share ? promise->baselines.any_api
                                         : replaces   ? promise->undivided
                                                      : MicroConfiguration());
  const bool any_engine =
      plan_.is_heuristics_first || promise->configuration.Largest().engine != facts_.asked;
  if (promise->ran_here) return RunAlone(*promise, told, trust);
  // As long as the division is not compared, the undivided engine runs.
  if (trust.kind != Trust::Kind::kTrusted) promise = UndividedAlone(std::move(*promise));
  compared_ &= trust.kind != Trust::Kind::kUnknown;
  const auto build = [&](const Configuration& pieces) -> const BuildOutcome& {
    return ask_(Build{pieces, promise->undivided, promise->workspace_bytes, true});
  };
  const bool runs_pieces = promise->configuration.Pieces() > 1 || promise->owned_bytes > 0;
  BuildOutcome built = build(runs_pieces ? promise->configuration : Configuration{});
  if (built.kind == BuildOutcome::Kind::kNoPieces) {
    compared_ = false;
    if (!any_engine && told == nullptr && !facts_.share) return StayUnprepared(built.message);
    decision_.notes.push_back({FallbackCause::kNotPrepared, built.message});
    promise = UndividedAlone(std::move(*promise));
    built = build({});
  }
  // The substitute must be built before anything is promised.
  if (built.kind != BuildOutcome::Kind::kReady) return Stay({ReasonKind::kNoSubstituteReady});
  Schedule(*promise, true);
  if (facts_.share) decision_.limit_bytes = promise->limit_bytes;
  decision_.promise = told != nullptr ? *told
                                      : KeptPromise{promise->workspace_bytes,
                                                    promise->undivided.engine, any_engine};
  decision_.gives_promise = told == nullptr;
  const bool unknown = trust.kind == Trust::Kind::kUnknown;
  const int pieces = promise->configuration.Pieces();
  decision_.reason = {unknown                    ? ReasonKind::kUndividedNotCompared
                      : pieces > 1               ? ReasonKind::kDivided
                      : promise->owned_bytes > 0 ? ReasonKind::kOwnWorkspace
                                                 : ReasonKind::kSubstituted,
                      pieces};
  decision_.reason.detail = unknown ? trust.message : facts_.asked.Text();
  decision_.reason.in_tiles = promise->configuration.IsTiled();
  if (pieces == 1) decision_.reason.no_tiles = no_tiles_;
}

void PlanDecider::LookAgain() {
  // If the need exceeds the limit and the program was told the need, the plan keeps reporting it,
  // and no later call decides again.
  const bool told_less = decision_.promises_less || plan_.told_here;
  if (!told_less && plan_.need_bytes > facts_.user_limit) return;
  // If this process does not measure the plan, rows of another process may still appear in the
  // store, so a later call looks again.
  const bool more = !compared_ || (facts_.tunes ? !settled_ : !measured_ && plan_.store);
  if (more) decision_.look_again = When::kLater;
}

Decision PlanDecider::Decide() {
  if (facts_.observes) return decision_;
  if (facts_.deterministic && !plan_.deterministic) {
    decision_.action = CallAction::kRefusal;
    decision_.reason = {ReasonKind::kNotDeterministic};
    return decision_;
  }
  const bool follows = plan_.in_workspace_plan && !plan_.file_waits && FollowFile();
  if (!follows) {
    const bool may_gain = facts_.problem.n > 1 || facts_.tiles == TileUse::kToGain;
    if (!may_gain && !must_shrink_) {
      decision_.reason = {ReasonKind::kCannotBeDivided};
    } else if (must_shrink_) {
      FitUnder();
    } else {
      GainTime();
    }
    if (HasRoom()) {
      decision_.promises_more = true;
      decision_.promised_bytes = plan_.told->workspace_bytes;
      decision_.promise = plan_.told;
    }
  }
  LookAgain();
  // A new decision replaces an earlier one only if it promises the same workspace and is no
  // refusal. An earlier division that was compared also stays in force until the new division was
  // compared, unless the budget was divided again and took the earlier division's workspace away.
  const EarlierDecision* const earlier = facts_.earlier ? &*facts_.earlier : nullptr;
  decision_.standing =
      earlier != nullptr && (earlier->promises_less != decision_.promises_less ||
                             earlier->promised_bytes != decision_.promised_bytes ||
                             decision_.action == CallAction::kRefusal ||
                             (earlier->divides && !compared_ && !earlier->lost_share));
  return decision_;
}

}  // namespace

std::vector<Candidate> CandidatesInBudget(std::vector<Candidate> own,
                                          const std::vector<Candidate>& other, int n,
                                          size_t need_bytes) {
  // On the whole mini-batch the plan's own engine needs `need_bytes`, so rows of a store that state
  // less are wrong.
  std::erase_if(own, [&](const Candidate& candidate) {
    return candidate.micro.IsWhole(n) && candidate.micro.workspace_bytes < need_bytes;
  });
  for (Candidate candidate : other) {
    if (!candidate.micro.IsWhole(n)) continue;
    candidate.micro.workspace_bytes = 0;
    own.push_back(std::move(candidate));
  }
  return own;
}

Decision DecidePlan(const Facts& facts, Asker& ask) { return PlanDecider(facts, ask).Decide(); }

}  // namespace ucudnn::planning
