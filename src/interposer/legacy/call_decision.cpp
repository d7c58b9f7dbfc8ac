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
  if (!process_.limit.is_auto()) return;
  const auto reported = process_.promises.LastReported(key);
  if (!reported || passed_bytes >= reported->workspace_bytes) return;
  // A caller that was told several sizes may have chosen any of them.
  if (process_.promises.Find(key, passed_bytes)) return;
  // A caller that passes no workspace may just not want any. That does not prove a lack of memory,
  // so the limit falls to no less than half of the promise.
  process_.limit.FallTo(std::max(passed_bytes, reported->workspace_bytes / 2));
  process_.reporter.Fallback(key.problem, planning::FallbackCause::kScarceWorkspace);
}

planning::Facts LegacyCalls::FactsOf(const cudnn::ConvolutionCall& call, const LegacyKernel& kernel,
                                     const CallKey& key) {
  const Options& options = process_.options;
  const ConvolutionProblem& problem = kernel.problem;
  const PromiseKey promise_key{kernel.session->platform(), call.algorithm, problem};
  planning::Facts facts = process_.rules.FactsOf(*kernel.session, problem, Api::kLegacy);
  facts.asked = EngineId::Legacy{call.algorithm, std::nullopt};
  facts.numeric = LegacyNumericClass(problem.operation, call.algorithm);

  CallFacts asked;
  asked.kind = key.kind;
  asked.passed_bytes = key.workspace_bytes;
  size_t need = 0;
  if (cudnn::WorkspaceBytes(process_.functions, problem.operation, call.handle, call.descriptors,
                            call.algorithm, &need) == CUDNN_STATUS_SUCCESS) {
    asked.need_bytes = need;
  }
  asked.graph_engines = kernel.graph;
  const bool plain = key.kind == CallKind::kPlain || key.kind == CallKind::kAdding;
  asked.more_outside =
      (plain && options.engines != EngineSet::kLegacy) || !options.workspace_plan.empty();
  if (!facts.observes) {
    NoteScarceWorkspace(promise_key, key.workspace_bytes);
    PromiseBook& promises = process_.promises;
    asked.told = promises.Find(promise_key, key.workspace_bytes);
    asked.told_alone = key.kind == CallKind::kIdentity
                           ? promises.FindAlone(promise_key, key.workspace_bytes)
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
    asked.was_told = promises.LastReported(promise_key).has_value();
    Confirmation confirmed = FindConfirmed(process_, kernel);
    asked.confirmed = std::move(confirmed.choice);
    asked.confirmed_later = confirmed.unanswered;
  }
  // If a provisional promise has more workspace than its undivided engine needs, a later plan is
  // expected to use that workspace. So tiles are considered even if the program's engine needs
  // little.
  const bool waits = asked.told && asked.told->provisional &&
                     asked.told->workspace_bytes > asked.told->undivided.workspace_bytes;
  facts.tiles = process_.rules.UseOfTiles(*kernel.session, problem,
                                          waits ? kNoLimit : asked.need_bytes.value_or(0));
  facts.program = std::move(asked);
  return facts;
}

CallState* LegacyCalls::Decide(const cudnn::ConvolutionCall& call, Session& session,
                               const CallKey& key, CallState* earlier) {
  // Building plans must not break another thread's capture.
  const cuda::RelaxedCaptureScope relaxed(*process_.driver);
  const bool capturing = session.Capturing();
  const bool plain = key.kind == CallKind::kPlain || key.kind == CallKind::kAdding;
  // Building plans of the graph API could break the capture, so no engine of the graph API serves
  // inside a capture.
  LegacyKernel kernel{key.problem, &session, call.handle, plain && !capturing};
  auto state = std::make_unique<CallState>();
  state->page = &process_.promises.PageOf({session.platform(), call.algorithm, key.problem});
  state->version = state->page->version();
  state->failed = state->page->failed;
  const int epoch = state->owned.epoch = EpochOf(session.budget());

  planning::Facts facts = FactsOf(call, kernel, key);
  const bool alone = key.kind == CallKind::kMisaligned || key.kind == CallKind::kIdentity;
  if (!facts.observes && !alone) {
    facts.share =
        process_.budgets.ShareOf({Api::kLegacy, key.problem}, session, call.handle, state->owned);
  }
  if (earlier != nullptr) {
    facts.earlier = FactsOfEarlier(*earlier, earlier->owned.epoch != epoch);
  }
  const long calls = state->page->calls.load(std::memory_order_relaxed);
  // With a strict limit, even the first call must stay within the limit or be refused, which
  // requires measurements.
  kernel.may_measure =
      facts.tunes && !capturing &&
      (process_.options.strict_limit || calls >= process_.options.tuning.after_calls);
  LegacyAnswers steps(process_, kernel);
  Lifecycle life({process_.rules, process_.reporter, steps, earlier, calls, epoch});
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
  const size_t limit = process_.rules.LimitOf(*question.session.budget());
  const tuning::LegacyRows measured =
      Measured(process_, kernel, process_.rules.RequestFor(met.problem, limit));
  const std::vector<planning::Candidate> candidates = tuning::OwnCandidates(met.problem, measured);
  const planning::PromiseRequest request =
      planning::RequestForNamed(candidates, Named(kernel, met.algorithm, limit));
  const planning::Tilings tilings =
      TilingsInBudget(kernel, candidates, planning::WorkspaceOfFastest(candidates, met.problem),
                      question.part_bytes);
  return planning::OwnedChoices(candidates, request, tilings.measured);
}

bool LegacyCalls::IsAssured(const BudgetKernel& kernel, const Session& session) {
  const auto told =
      process_.promises.LastReported({session.platform(), kernel.algorithm, kernel.problem});
  return told && told->assured_bytes > 0;
}

}  // namespace ucudnn::interposer
