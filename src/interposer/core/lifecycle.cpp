#include "interposer/core/lifecycle.h"

#include <cassert>
#include <variant>

namespace ucudnn::interposer {

using planning::Decision;

namespace {

// Passes each question of Decide to `answers`, and adds the answer to the facts.
struct AnswerStep {
  planning::Facts& facts;
  DecisionAnswers& answers;
  Reporter* reporter;
  const KernelState* earlier;

  void operator()(planning::Measure& question) {
    planning::Rows rows = answers.Answer(question);
    facts.measured.Add(std::move(question), std::move(rows));
  }
  void operator()(planning::FindTilings& question) {
    planning::Tilings tilings = answers.Answer(question);
    facts.tilings.Add(std::move(question), std::move(tilings));
  }
  void operator()(planning::FindSubstitutes& question) {
    facts.substitutes.Add(question, answers.Answer(question));
  }
  void operator()(planning::Compare& question) {
    planning::Trust trust = answers.Answer(question);
    if (trust.kind == planning::Trust::Kind::kWrong) {
      const auto cause = question.configuration.Pieces() > 1
                             ? planning::FallbackCause::kDivisionWrong
                             : planning::FallbackCause::kGraphEngineWrong;
      if (reporter != nullptr) reporter->Fallback(facts.problem, cause, trust.message);
      // The measurements of the wrong plan's pieces were dropped, so all measurements must be read
      // again.
      facts.measured.Clear();
      facts.tilings.Clear();
    }
    facts.compared.Add(std::move(question), std::move(trust));
  }
  void operator()(planning::Build& question) {
    planning::BuildOutcome outcome = answers.BuildUnless(earlier, question);
    facts.built.Add(std::move(question), std::move(outcome));
  }
  void operator()(Decision&) {}
};

// Stores the promise of a decision. Returns false if this or another process gave a different
// promise before; that promise is then added to the facts, and the caller decides anew.
bool IsKept(const Decision& decision, planning::Facts& facts, DecisionAnswers& answers) {
  if (!decision.gives_promise) return true;
  const planning::KeptPromise kept = answers.Keep(decision);
  if (kept == *decision.promise) return true;
  std::get<planning::PlanFacts>(facts.program).told = kept;
  facts.built.Clear();
  return false;
}

// Returns the decision's entry in the report.
KernelRecord RecordOf(const planning::Facts& facts, const Decision& decision) {
  KernelRecord record;
  record.problem = facts.problem;
  record.asked = facts.asked;
  record.limit_bytes = decision.limit_bytes;
  record.workspace_bytes = decision.promised_bytes;
  record.owned_workspace_bytes = decision.owned_bytes;
  record.configuration = decision.configuration;
  record.undivided = decision.baselines.own_api;
  record.best_undivided = decision.baselines.any_api;
  record.reason = Sentence(decision.reason);
  record.api = std::holds_alternative<planning::PlanFacts>(facts.program) ? "graph" : "legacy";
  return record;
}

}  // namespace

Decision DecideBy(planning::Facts& facts, DecisionAnswers& answers, Reporter* reporter,
                  const KernelState* earlier) {
  for (int taken = 1;; ++taken) {
    planning::Step step = planning::Decide(facts);
    const char* broken = nullptr;
    if (taken >= planning::kMostSteps && !std::holds_alternative<Decision>(step)) {
      step = Decision();
      broken = "its questions do not end";
    }
    auto* const decision = std::get_if<Decision>(&step);
    if (decision == nullptr) {
      std::visit(AnswerStep{facts, answers, reporter, earlier}, step);
      continue;
    }
    if (broken == nullptr) broken = planning::BrokenInvariant(facts, *decision);
    if (broken != nullptr) {
      assert(!"a decision contradicts itself");
      *decision = planning::AsAsked(facts, planning::ReasonKind::kBrokenInvariant);
      decision->standing = facts.earlier.has_value();
      decision->notes.push_back({planning::FallbackCause::kBrokenInvariant, broken});
    } else if (reporter != nullptr && !IsKept(*decision, facts, answers)) {
      continue;
    }
    if (reporter == nullptr) return std::move(*decision);
    for (const planning::Note& note : decision->notes) {
      reporter->Fallback(facts.problem, note.cause, note.detail);
    }
    return std::move(*decision);
  }
}

planning::EarlierDecision FactsOfEarlier(const KernelState& earlier, bool lost_share) {
  return {earlier.Divides(), lost_share, earlier.decision.promises_less,
          earlier.decision.promised_bytes};
}

void Lifecycle::Decide(planning::Facts& facts, KernelState& state) {
  facts.failed = *state.failed;
  DecisionAnswers& answers = request_.answers;
  state.decision = DecideBy(facts, answers, &request_.reporter, request_.earlier);
  const Decision& decision = state.decision;
  // If this process does not measure a plan, the next decision does not wait for
  // tuning.after_calls, because only measurements of other processes can change the
  // decision.
  const bool waits = facts.tunes || std::holds_alternative<planning::CallFacts>(facts.program);
  due_at_ = request_.rules.CallsUntil(decision.look_again, request_.calls, waits);
  stands_ = decision.standing && request_.earlier != nullptr;
  KernelState& due = stands_ ? *request_.earlier : state;
  due.due_at = due_at_;
  due.decided_epoch = request_.epoch;
  if (stands_) return;
  record_ = RecordOf(facts, decision);
  if (decision.action != planning::CallAction::kSchedule) return;
  state.built = answers.built();
  state.owned.bytes = decision.owned_bytes;
  state.owned.assured = decision.fallback == planning::FallbackKind::kPieces;
  state.ran = decision.ran_here;
  if (answers.stays_built()) {
    state.schedule = request_.earlier->schedule;
    state.ran = state.ran || request_.earlier->ran;
  } else {
    state.schedule = answers.TakeSchedule();
  }
  if (state.schedule != nullptr && decision.configuration.Pieces() > 1) {
    record_.steps = state.schedule->StepCount();
  }
  if (request_.rules.Checks() && state.schedule != nullptr && state.schedule->has_pieces()) {
    state.checked = answers.CoarsestOf(decision);
  }
}

void Lifecycle::Enter(KernelState& state) {
  state.record = request_.reporter.report().Record(
      record_, request_.earlier == nullptr ? nullptr : request_.earlier->record, fresh_);
}

void Lifecycle::Published() const {
  if (fresh_) request_.reporter.Write();
}

}  // namespace ucudnn::interposer
