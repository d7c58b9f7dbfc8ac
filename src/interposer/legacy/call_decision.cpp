// Decides how a convolution call runs if its session has not seen such a call before. Decides anew
// when more is known.
#include <algorithm>

#include "convolution/engine_name.h"
#include "cuda/resources.h"
#include "interposer/legacy/legacy_calls.h"
#include "planning/owned_promise.h"

namespace ucudnn::interposer {

using planning::CallFacts;

void LegacyCalls::NoteScarceWorkspace(const PromiseKey& key, size_t passed_bytes) {
  if (!limit_.is_auto()) return;
  const auto reported = promises_.LastReported(key);
  if (!reported || passed_bytes >= reported->workspace_bytes) return;
  // A caller that was told several sizes may have chosen any of them.
  if (promises_.Find(key, passed_bytes)) return;
  // A caller that passes no workspace may just not want any, and need not lack memory. So the limit
  // falls to no less than half of the promise.
  limit_.FallTo(std::max(passed_bytes, reported->workspace_bytes / 2));
  reporter_.Fallback(key.problem, planning::FallbackCause::kScarceWorkspace);
}

planning::Facts LegacyCalls::FactsOf(const cudnn::ConvolutionCall& call, const LegacyKernel& kernel,
                                     const CallKey& key) {
  const ConvolutionProblem& problem = kernel.problem;
  const PromiseKey promise_key{kernel.session->platform(), call.algorithm, problem};
  planning::Facts facts = rules_.FactsOf(*kernel.session, problem, Api::kLegacy);
  facts.asked = EngineId::Legacy{call.algorithm, std::nullopt};
  facts.numeric = LegacyNumericClass(problem.operation, call.algorithm);

  CallFacts asked;
  asked.kind = key.kind;
  asked.passed_bytes = key.workspace_bytes;
  size_t need = 0;
  if (cudnn::WorkspaceBytes(functions_, problem.operation, call.handle, call.descriptors,
                            call.algorithm, &need) == CUDNN_STATUS_SUCCESS) {
    asked.need_bytes = need;
  }
  asked.graph_engines = kernel.graph;
  const bool plain = key.kind == CallKind::kPlain || key.kind == CallKind::kAdding;
  asked.more_outside =
      (plain && options_.engines != EngineSet::kLegacy) || !options_.workspace_plan.empty();
  if (!facts.observes) {
    NoteScarceWorkspace(promise_key, key.workspace_bytes);
    asked.told = promises_.Find(promise_key, key.workspace_bytes);
    asked.told_alone = key.kind == CallKind::kIdentity
                           ? promises_.FindAlone(promise_key, key.workspace_bytes)
                           : asked.told;
    if (WorkspaceBudget* const budget = kernel.session->budget()) {
      size_t needed = asked.told ? planning::AssuredBytes(*asked.told) : 0;
      if (asked.told_alone) {
        needed = std::max(needed, planning::AssuredBytes(*asked.told_alone));
      }
      // Assure may allocate, and inside a capture only necessary memory is allocated. So Assure is
      // called only if the assured memory is too small.
      if (needed > budget->assured_bytes()) budget->Assure(needed);
      facts.assured_bytes = budget->assured_bytes();
    }
    asked.was_told = promises_.LastReported(promise_key).has_value();
    Confirmation confirmed = tuner_.FindConfirmed(kernel);
    asked.confirmed = std::move(confirmed.choice);
    asked.confirmed_later = confirmed.unanswered;
  }
  // If a provisional promise has more workspace than its undivided engine needs, a later plan is
  // expected to use that workspace. So tiles are considered even if the program's engine needs
  // little.
  const bool waits = asked.told && asked.told->provisional &&
                     asked.told->workspace_bytes > asked.told->undivided.workspace_bytes;
  facts.tiles =
      rules_.UseOfTiles(*kernel.session, problem, waits ? kNoLimit : asked.need_bytes.value_or(0));
  facts.program = std::move(asked);
  return facts;
}

CallState* LegacyCalls::Decide(const cudnn::ConvolutionCall& call, Session& session,
                               const CallKey& key, CallState* earlier) {
  // Building plans must not break another thread's capture.
  const cuda::RelaxedCaptureScope relaxed(session.driver());
  const bool capturing = session.Capturing();
  const bool plain = key.kind == CallKind::kPlain || key.kind == CallKind::kAdding;
  // Building plans of the graph API could break the capture, so inside a capture only engines of
  // the legacy API are considered.
  LegacyKernel kernel{key.problem, &session, call.handle, plain && !capturing};
  auto state = std::make_unique<CallState>();
  state->page = &promises_.PageOf({session.platform(), call.algorithm, key.problem});
  state->version = state->page->version();
  state->failed = state->page->failed;
  const int epoch = state->owned.epoch = EpochOf(session.budget());

  planning::Facts facts = FactsOf(call, kernel, key);
  const bool alone = key.kind == CallKind::kMisaligned || key.kind == CallKind::kIdentity;
  if (!facts.observes && !alone) {
    facts.share = budgets_.ShareOf({Api::kLegacy, key.problem}, session, call.handle, state->owned);
  }
  if (earlier != nullptr) {
    facts.earlier = FactsOfEarlier(*earlier, earlier->owned.epoch != epoch);
  }
  const long calls = state->page->calls.load(std::memory_order_relaxed);
  // With a strict limit, even the first call must stay within the limit or be refused. So the
  // kernel may be measured at its first call.
  kernel.may_measure =
      facts.tunes && !capturing && (options_.strict_limit || calls >= options_.tuning.after_calls);
  LegacyAnswers steps(tuner_, kernel);
  Lifecycle life({rules_, reporter_, steps, earlier, calls, epoch});
  life.Decide(facts, *state);
  if (life.stands()) return earlier;
  // Nothing can be measured during a capture, so a decision for the program's own call is not kept.
  if (state->decision.action == planning::CallAction::kReal && capturing) return nullptr;
  life.Enter(*state);
  CallState* const kept = session.Keep(key, std::move(state));
  life.Published();
  return kept;
}

std::vector<Configuration> LegacyCalls::ChoicesOf(const DivisionQuestion& question) {
  const BudgetKernel& met = question.kernel;
  LegacyKernel kernel{met.problem, &question.session, question.handle};
  kernel.may_measure = question.may_measure;
  const size_t limit = rules_.LimitOf(*question.session.budget());
  const tuning::LegacyRows measured =
      tuner_.Measured(kernel, rules_.RequestFor(met.problem, limit));
  const std::vector<planning::Candidate> candidates = tuning::OwnCandidates(met.problem, measured);
  const planning::PromiseRequest request =
      planning::RequestForNamed(candidates, Named(kernel, met.algorithm, limit));
  const planning::Tilings tilings =
      TilingsInBudget(kernel, candidates, planning::WorkspaceOfFastest(candidates, met.problem),
                      question.part_bytes);
  return planning::OwnedChoices(candidates, request, tilings.measured);
}

bool LegacyCalls::IsAssured(const BudgetKernel& kernel, const Session& session) {
  const auto told = promises_.LastReported({session.platform(), kernel.algorithm, kernel.problem});
  return told && told->assured_bytes > 0;
}

}  // namespace ucudnn::interposer
