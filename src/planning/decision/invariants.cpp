// Checks the postconditions of a decision: the invariants of docs/design.md, as far as the facts
// and the decision show them.
#include <algorithm>

#include "planning/decision/decide.h"
#include "planning/decision/promises.h"

namespace ucudnn::planning {
namespace {

// The text of the postcondition that a decision breaks; null: it breaks none.
using Broken = const char*;

template <typename Promised>
bool HasEngine(const Promised& promised, const EngineId& engine) {
  return std::any_of(promised.runs.begin(), promised.runs.end(),
                     [&](const Run& run) { return run.micro.engine == engine; });
}

class Invariants {
 public:
  Invariants(const Facts& facts, const Decision& decision)
      : facts_(facts),
        decision_(decision),
        call_(std::get_if<CallFacts>(&facts.program)),
        plan_(std::get_if<PlanFacts>(&facts.program)),
        has_whole_(!decision.undivided.engine.empty()) {}

  Broken Find() const {
    if (decision_.action == CallAction::kReal) return OfTheProgramsOwnCall();
    if (decision_.action == CallAction::kRefusal) {
      const bool demanded = facts_.strict_limit || facts_.deterministic;
      return demanded ? nullptr : "7: it is refused, and no user demands that";
    }
    for (const auto check :
         {&Invariants::Exact, &Invariants::Promised, &Invariants::Ready, &Invariants::Legal,
          &Invariants::NoSlower, &Invariants::Limited, &Invariants::Compared}) {
      if (const Broken broken = (this->*check)()) return broken;
    }
    return nullptr;
  }

 private:
  Broken OfTheProgramsOwnCall() const;
  // Checks that a promise beyond a plan's need is allowed and does not change.
  Broken RoomToldOf() const;
  Broken Exact() const;
  Broken Promised() const;
  Broken Ready() const;
  Broken Legal() const;
  Broken NoSlower() const;
  Broken Limited() const;
  Broken Compared() const;

  // Calls each(micro) for each engine that the decision may run, until a call returns a broken
  // postcondition. Returns this postcondition; null if every call returned null.
  template <typename Each>
  Broken OfAll(Each each) const {
    for (const Run& run : decision_.configuration.runs) {
      if (const Broken broken = each(run.micro)) return broken;
    }
    return has_whole_ ? each(decision_.undivided) : nullptr;
  }
  // Calls each(candidate) for every candidate that the facts contain: rows, tiles, and the
  // workspace plan's entry.
  template <typename Each>
  void ForCandidates(Each each) const {
    for (const auto& [question, rows] : facts_.measured.entries()) {
      for (const Candidate& candidate : rows.candidates) each(candidate);
    }
    for (const auto& [question, tilings] : facts_.tilings.entries()) {
      for (const Tiling& tiling : tilings.measured) {
        for (const Tiling::Kind& kind : tiling.kinds) {
          for (const Candidate& candidate : kind.candidates) each(candidate);
        }
      }
    }
    if (call_ == nullptr || !call_->confirmed) return;
    for (const Candidate& candidate : call_->confirmed->candidates) each(candidate);
  }
  Broken ExactInCall(const MicroConfiguration& micro) const;
  Broken ExactInPlan(const MicroConfiguration& micro) const;
  // Returns whether the call's engines must be deterministic. They must be if the user demands it.
  // Else it depends on the promise that the program was told or, if there is none, on whether the
  // named algorithm is known to be deterministic.
  bool IsDeterministic() const;
  const MicroConfiguration* AskedAsMeasured() const;

  const Facts& facts_;
  const Decision& decision_;
  const CallFacts* const call_;  // null for a plan of the graph API
  const PlanFacts* const plan_;  // null for a call of the legacy API
  const bool has_whole_;
};

Broken Invariants::OfTheProgramsOwnCall() const {
  if (plan_ != nullptr) {
    const bool less =
        plan_->told_here && plan_->told && plan_->told->workspace_bytes < plan_->need_bytes;
    return less ? "2: what was promised less than it needs runs as it is" : RoomToldOf();
  }
  const auto& built = facts_.built.entries();
  const bool tried = std::any_of(built.begin(), built.end(), [](const auto& known) {
    return known.second.kind != BuildOutcome::Kind::kReady;
  });
  const auto& compared = facts_.compared.entries();
  const bool wrong = std::any_of(compared.begin(), compared.end(), [&](const auto& known) {
    return known.second.kind == Trust::Kind::kWrong && call_->told &&
           call_->told->undivided.engine.empty() &&
           known.first.configuration == call_->told->configuration;
  });
  const bool other_serves =
      call_->kind != CallKind::kMisaligned && call_->kind != CallKind::kIdentity;
  const bool lacks = call_->told && call_->told->undivided.engine.empty() &&
                     call_->told->owned_bytes > facts_.assured_bytes;
  const bool told = call_->told && other_serves && !facts_.observes && !tried && !wrong && !lacks;
  if (told && decision_.promised_bytes > call_->passed_bytes) {
    return "2: what was promised less than it needs runs as it was asked";
  }
  return nullptr;
}

Broken Invariants::RoomToldOf() const {
  const size_t promised = decision_.promised_bytes;
  const bool told = plan_ != nullptr && plan_->told_here && plan_->told &&
                    plan_->told->workspace_bytes > plan_->need_bytes;
  if (told && (!decision_.promises_more || promised != plan_->told->workspace_bytes)) {
    return "2: a promise changes";
  }
  if (!decision_.promises_more) return nullptr;
  if (plan_ == nullptr || facts_.user_limit == kNoLimit || promised > facts_.user_limit) {
    return "2: more than the need is promised, and no limit of the user's allows it";
  }
  if (!decision_.promise || decision_.promise->workspace_bytes != promised) {
    return "2: more than the need is promised, and nothing kept";
  }
  return nullptr;
}

bool Invariants::IsDeterministic() const {
  if (facts_.deterministic) return true;
  if (call_->told) return call_->told->reported.deterministic;
  if (call_->told_alone) return call_->told_alone->reported.deterministic;
  bool known = false, random = false;
  ForCandidates([&](const Candidate& candidate) {
    const MicroConfiguration& micro = candidate.micro;
    if (micro.engine != facts_.asked) return;
    known |= micro.IsWhole(facts_.problem.n);
    random |= !micro.deterministic;
  });
  return known && !random;
}

Broken Invariants::ExactInCall(const MicroConfiguration& micro) const {
  const auto tells = [&](const std::optional<Promise>& told) {
    return told &&
           (told->undivided.engine == micro.engine || HasEngine(told->configuration, micro.engine));
  };
  bool known = micro.engine == facts_.asked || tells(call_->told) || tells(call_->told_alone);
  bool coarser = false;
  ForCandidates([&](const Candidate& candidate) {
    if (candidate.micro.engine != micro.engine) return;
    known = true;
    coarser |= candidate.numeric != NumericClass::kDirect && candidate.numeric != facts_.numeric;
  });
  if (!known) return "1: an engine runs that nobody knows";
  return coarser ? "1: an engine runs that is less exact than what was asked" : nullptr;
}

Broken Invariants::ExactInPlan(const MicroConfiguration& micro) const {
  if (micro.engine == facts_.asked) return nullptr;
  if (plan_->confirmed && HasEngine(plan_->confirmed->configuration, micro.engine)) return nullptr;
  if (plan_->is_vast && decision_.configuration.IsTiled() && !micro.IsWhole(facts_.problem.n)) {
    bool known = false, coarser = false;
    ForCandidates([&](const Candidate& candidate) {
      if (candidate.micro.engine != micro.engine) return;
      known = true;
      coarser |= candidate.numeric != NumericClass::kDirect && candidate.numeric != facts_.numeric;
    });
    if (known) return coarser ? "1: a tile runs that is less exact than the plan" : nullptr;
  }
  if (!micro.IsWhole(facts_.problem.n)) return "1: pieces are not of the plan's own engine";
  for (const auto& [question, others] : facts_.substitutes.entries()) {
    for (const MicroConfiguration& other : others) {
      if (other.engine == micro.engine) return nullptr;
    }
  }
  return "1: an engine runs that may not take the plan's place";
}

// Checks invariant 1, same mathematics.
Broken Invariants::Exact() const {
  const bool deterministic = call_ != nullptr && IsDeterministic();
  return OfAll([&](const MicroConfiguration& micro) -> Broken {
    // The named algorithm may be less deterministic than the program was told, unless the user
    // demands determinism.
    const bool may_be_random = micro.engine == facts_.asked && !facts_.deterministic;
    if (deterministic && !micro.deterministic && !may_be_random) {
      return "1: less deterministic than what was asked";
    }
    return call_ != nullptr ? ExactInCall(micro) : ExactInPlan(micro);
  });
}

// Checks invariant 2, that a promise is kept.
Broken Invariants::Promised() const {
  const size_t promised = decision_.promised_bytes;
  if (const Broken broken = RoomToldOf()) return broken;
  if (!decision_.promises_more &&
      promised > (call_ != nullptr ? call_->passed_bytes : plan_->need_bytes)) {
    return "2: it uses more than the caller passes";
  }
  const size_t room = decision_.owned_bytes > 0 ? decision_.owned_bytes : promised;
  if (decision_.configuration.WorkspaceBytes() > room) return "2: its pieces exceed the promise";
  if (has_whole_ && decision_.undivided.workspace_bytes > promised) {
    return "2: what runs undivided exceeds the promise";
  }
  switch (decision_.fallback) {
    case FallbackKind::kUndivided:
      if (!has_whole_) return "2: nothing keeps the promise";
      break;
    case FallbackKind::kPieces:
      if (has_whole_) return "2: something undivided keeps the promise";
      break;
    case FallbackKind::kReal:
      // kReal runs the program's own call in the workspace that the program passes, or its plan in
      // the workspace that the plan needs.
      if (call_ != nullptr ? call_->need_bytes.value_or(kNoLimit) > call_->passed_bytes
                           : decision_.promises_less) {
        return "2: what was asked does not keep the promise";
      }
  }
  if (plan_ == nullptr || !decision_.promises_less) return nullptr;
  if (!decision_.promise) return "2: less than the need is promised, and nothing kept";
  const bool changes = plan_->told_here && plan_->told && promised != plan_->told->workspace_bytes;
  return changes ? "2: a promise changes" : nullptr;
}

// Checks invariant 3: everything that runs was built before.
Broken Invariants::Ready() const {
  const auto& built = facts_.built.entries();
  const bool pieces = decision_.configuration.Pieces() > 1 || decision_.owned_bytes > 0;
  const bool ready = std::any_of(built.begin(), built.end(), [&](const auto& known) {
    const Build& build = known.first;
    return known.second.kind == BuildOutcome::Kind::kReady &&
           build.undivided == decision_.undivided &&
           (build.configuration == decision_.configuration ||
            (build.configuration.runs.empty() && !pieces));
  });
  return ready ? nullptr : "3: what it runs is not ready";
}

// Checks invariant 4, alignment.
Broken Invariants::Legal() const {
  const int n = facts_.problem.n, step = LegalStep(facts_.problem);
  if (!decision_.configuration.Covers(n)) return "4: it does not cover the mini-batch";
  if (has_whole_ && !decision_.undivided.IsWhole(n)) {
    return "4: what takes its place does not cover the mini-batch";
  }
  for (const Run& run : decision_.configuration.runs) {
    if (run.count < 1 || run.micro.micro_batch < 1) return "4: a piece has no images";
    // Tiles need not begin at multiples of the step, because plans of tiles declare their own
    // alignment.
    if (decision_.configuration.IsTiled()) continue;
    const bool last = &run == &decision_.configuration.runs.back() && run.count == 1;
    if (run.micro.micro_batch % step != 0 && !last) return "4: a piece begins on no legal step";
  }
  return nullptr;
}

const MicroConfiguration* Invariants::AskedAsMeasured() const {
  for (const auto& [question, rows] : facts_.measured.entries()) {
    const Candidate* const own = FindUndivided(rows.candidates, facts_.asked, facts_.problem.n);
    if (own != nullptr) return &own->micro;
  }
  return nullptr;
}

// Checks invariant 7, never worse, if the named engine was measured and fits the limit and the
// user's demands. Under a budget, or if a promise binds the kernel, a plan may have to be slower
// than the named engine, so times are not compared. Kernels of a workspace plan have no
// measurements.
Broken Invariants::NoSlower() const {
  const bool bound = call_ != nullptr ? call_->was_told : decision_.promises_less;
  const MicroConfiguration* const own = AskedAsMeasured();
  if (bound || facts_.share || own == nullptr) return nullptr;
  const size_t need = call_ != nullptr ? call_->need_bytes.value_or(kNoLimit) : plan_->need_bytes;
  const bool serves = std::max(need, own->workspace_bytes) <= decision_.limit_bytes &&
                      (own->deterministic || !facts_.deterministic);
  const bool slower = own->time_ms >= 0 && decision_.configuration.TimeMs() > own->time_ms;
  return serves && slower ? "7: it is slower than what was asked" : nullptr;
}

// Checks invariant 8. A promise that was not given earlier must be within the user's limit, and
// ucudnn's workspace within the kernel's share of the budget.
Broken Invariants::Limited() const {
  const bool told = call_ != nullptr && call_->was_told;
  if (!told && decision_.promised_bytes > facts_.user_limit)
    return "8: it exceeds the user's limit";
  if (decision_.owned_bytes == 0) return nullptr;
  const size_t share = facts_.share ? facts_.share->usable_bytes() : 0;
  // The workspace of pieces that keep a promise alone is set aside, so it is not part of the share.
  const bool alone = !has_whole_;
  return decision_.owned_bytes > (alone ? facts_.assured_bytes : share)
             ? "8: it exceeds what the budget has"
             : nullptr;
}

// Checks invariant 9: a plan that needs a comparison was compared. Pieces that keep a promise alone
// are not checked, because they were compared before the promise was given.
Broken Invariants::Compared() const {
  const bool needs = decision_.configuration.Pieces() > 1 ||
                     (call_ != nullptr && UsesGraph(decision_.configuration));
  const bool told = call_ != nullptr && (call_->told || call_->told_alone);
  if (!needs || decision_.fallback == FallbackKind::kPieces || (told && !has_whole_))
    return nullptr;
  const auto& compared = facts_.compared.entries();
  const bool trusted = std::any_of(compared.begin(), compared.end(), [&](const auto& known) {
    return known.first.configuration == decision_.configuration &&
           known.second.kind == Trust::Kind::kTrusted;
  });
  return trusted ? nullptr : "9: its pieces were not compared";
}

}  // namespace

const char* BrokenInvariant(const Facts& facts, const Decision& decision) {
  // A decision that stays in force needs no check, because it was checked when it was made.
  return decision.standing ? nullptr : Invariants(facts, decision).Find();
}

}  // namespace ucudnn::planning
