// Decides about an execution plan when the application finalizes it, and again when more is known.
// The decision says what the plan promises and how the promise is kept.
#include <algorithm>
#include <cassert>

#include "base/log.h"
#include "cuda/resources.h"
#include "cudnn/plan_words.h"
#include "interposer/graph/graph_plans.h"
#include "planning/owned_promise.h"

namespace ucudnn::interposer {
namespace {

using planning::Detail;
using planning::FallbackCause;

// Sets the flag to false when this object is destroyed.
class Looking {
 public:
  explicit Looking(std::atomic<bool>& looking) : looking_(looking) {}
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;
  ~Looking() { looking_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool>& looking_;
};

}  // namespace

GraphKernel GraphPlans::KernelOf(const PlanState& state, Session& session,
                                 cudnnHandle_t handle) const {
  GraphKernel kernel;
  kernel.handle = handle;
  kernel.session = &session;
  kernel.own = state.own;
  kernel.need_bytes = state.need_bytes;
  kernel.limit_bytes = state.limit_bytes;
  kernel.is_heuristics_first = state.is_heuristics_first;
  kernel.comes_late = state.comes_late;
  kernel.again = true;
  return kernel;
}

planning::Facts GraphPlans::FactsOf(const GraphKernel& kernel, GraphAnswers& steps,
                                    const PlanState* earlier, OwnedPart& part) {
  const ConvolutionProblem& problem = kernel.problem();
  const WorkspaceBudget* const budget = kernel.session->budget();
  const planning::Platform& platform = kernel.session->device().platform;
  planning::Facts facts = rules_.FactsOf(*kernel.session, problem, Api::kGraph);
  facts.asked = kernel.own->convolution.engine;
  facts.numeric = kernel.own->numeric;
  facts.user_limit = kernel.limit_bytes;
  facts.tunes = facts.tunes && !kernel.comes_late;
  facts.tiles = rules_.UseOfTiles(*kernel.session, problem, kernel.need_bytes);

  planning::PlanFacts plan;
  plan.need_bytes = kernel.need_bytes;
  plan.deterministic = kernel.own->deterministic;
  plan.is_heuristics_first = kernel.is_heuristics_first;
  plan.is_vast = planning::IsVast(problem, rules_.most_span());
  plan.store = kernels_.store() != nullptr;
  if (budget != nullptr) {
    // The plan's share of the budget is known only when the plan runs, because the share depends on
    // handle and stream.
    facts.share = planning::BudgetShare{0, rules_.LimitOf(*budget)};
    if (earlier != nullptr && earlier->budget != nullptr) {
      if (auto share =
              budgets_.ShareOf(earlier->budget_kernel(), *kernel.session, kernel.handle, part)) {
        facts.share = share;
      }
    }
  }
  if (earlier != nullptr) {
    const bool lost = earlier->owned.bytes > 0 && earlier->owned.epoch != part.epoch;
    facts.earlier = FactsOfEarlier(*earlier, lost);
    plan.told = earlier->decision.promise;
    plan.told_here = plan.told.has_value();
  }
  const bool on = options_.mode == Mode::kOn;
  const planning::WorkspacePlan* file = nullptr;
  if (FollowedPlan* const followed = rules_.PlanFor(*kernel.session, problem, Api::kGraph)) {
    file = followed->For(platform);
  }
  const int position = file == nullptr ? -1 : file->Find(problem, Api::kGraph);
  plan.in_workspace_plan = position >= 0;
  plan.file_waits = budget != nullptr && part.kernel < 0;
  if (plan.in_workspace_plan && !plan.file_waits) {
    const size_t limit = facts.share ? facts.share->usable_bytes()
                                     : std::min({kernel.limit_bytes, kernel.need_bytes,
                                                 file->limit_bytes.value_or(kNoLimit)});
    auto confirmed = steps.ConfirmKernel(file->kernels[position], limit);
    if (confirmed.ok()) {
      plan.confirmed = std::move(*confirmed);
    } else {
      plan.unconfirmed_why = confirmed.message();
    }
  }
  const bool may_shrink = on && (kernel.need_bytes > kernel.limit_bytes ||
                                 (budget != nullptr && plan.in_workspace_plan));
  const bool may_grow = on && plan.is_vast && earlier == nullptr && budget == nullptr &&
                        kernel.limit_bytes != kNoLimit;
  if ((may_shrink || may_grow) && !plan.told) {
    const auto kept =
        promises_.Find({problem, platform, kernel.own->convolution.engine, kernel.limit_bytes});
    if (kept) plan.told = {kept->workspace_bytes, kept->undivided, kept->any_engine};
  }
  facts.program = std::move(plan);
  return facts;
}

std::unique_ptr<PlanState> GraphPlans::Make(const GraphKernel& kernel, GraphAnswers& steps,
                                            const PlanState* earlier, Lifecycle& life) {
  auto state = std::make_unique<PlanState>();
  state->owned.epoch = EpochOf(kernel.session->budget());
  planning::Facts facts = FactsOf(kernel, steps, earlier, state->owned);
  state->own = kernel.own;
  state->context = kernel.session->context();
  state->need_bytes = kernel.need_bytes;
  state->limit_bytes = kernel.limit_bytes;
  state->is_heuristics_first = kernel.is_heuristics_first;
  state->comes_late = kernel.comes_late;
  state->wide_alpha = kernel.own->convolution.alpha;
  state->wide_beta = kernel.own->convolution.beta;
  state->alpha = static_cast<float>(state->wide_alpha);
  state->beta = static_cast<float>(state->wide_beta);
  state->failed = earlier != nullptr ? earlier->failed : std::make_shared<std::atomic<bool>>(false);
  if (earlier != nullptr) {
    state->native = earlier->native;
    state->executing = earlier->executing;
  }
  life.Decide(facts, *state);
  const planning::Decision& decision = state->decision;
  if (decision.promises_less) {
    state->substitute =
        steps.stays_built()
            ? earlier->substitute
            : std::make_shared<const cudnn::BackendDescriptor>(steps.TakeSubstitute());
    state->other = steps.Find(decision.undivided.engine);
    state->budget = kernel.session->budget();
    // The application's plan never runs again: a substitute replaces it, or only pieces keep the
    // promise.
    assert((state->substitute->get() != nullptr && state->other != nullptr) ||
           decision.fallback == planning::FallbackKind::kPieces);
  }
  return state;
}

PlanState* GraphPlans::Improve(cudnnHandle_t handle, PlanState& state) {
  // Only one thread decides anew; other threads continue with the present state.
  if (state.looking.exchange(true, std::memory_order_acquire)) return &state;
  const Looking looking(state.looking);
  const long calls = state.record->calls.load(std::memory_order_relaxed);
  const int epoch = EpochOf(state.budget);
  const int decided_epoch = state.decided_epoch.exchange(epoch);
  const bool redivided = decided_epoch != epoch;
  const long due = state.due_at.exchange(KernelState::kFinal);
  if ((due == KernelState::kFinal && !redivided) || *state.failed) return &state;
  try {
    Session* const session = sessions_.Of(handle);
    // Inside a capture the present state stays, although more may be known by now.
    if (session == nullptr || session->context() != state.context || session->Capturing()) {
      state.due_at = due;
      state.decided_epoch = decided_epoch;
      return &state;
    }
    const cuda::RelaxedCaptureScope relaxed(session->driver());
    GraphKernel kernel = KernelOf(state, *session, handle);
    kernel.may_measure = rules_.Tunes(*session, kernel.problem(), Api::kGraph) &&
                         calls >= options_.tuning.after_calls;
    GraphAnswers steps = AnswersAbout(kernel);
    Lifecycle life({rules_, reporter_, steps, &state, calls, epoch});
    std::unique_ptr<PlanState> better = Make(kernel, steps, &state, life);
    const bool has_its_part = state.owned.bytes == 0 || state.owned.epoch == epoch;
    const bool is_as_before = life.record() == state.record->record && !redivided && has_its_part;
    if (life.stands() || is_as_before) {
      // If a new division of the budget took this state's workspace away, the share is looked up
      // again soon.
      const bool lost = redivided && state.owned.bytes > 0;
      const long soon = rules_.CallsUntil(planning::When::kLater, calls, false);
      state.due_at = lost ? std::min(life.due_at(), soon) : life.due_at();
      return &state;
    }
    better->number = state.number;
    if (life.record().configuration == state.record->record.configuration) {
      better->ran = state.ran.load();
    }
    life.Enter(*better);
    PlanState* const latest = better.get();
    {
      MutexLock lock(mutex_);
      improved_.push_back(std::move(better));
    }
    state.better.store(latest, std::memory_order_release);
    life.Published();
    return latest;
  } catch (...) {
    WarnOnce("memory", "out of host memory: a plan stays as it was decided");
    state.due_at = rules_.CallsUntil(planning::When::kLater, calls, false);
    return &state;
  }
}

PlanState* GraphPlans::LeaveAlone(cudnnBackendDescriptor_t plan, size_t limit_bytes,
                                  const std::string& why) {
  const auto need = cudnn::PlanWorkspace(functions_, plan);
  const bool over_limit = need.ok() && *need > limit_bytes;
  // Reading the plan takes time, so the plan is read only if its need exceeds the limit or the user
  // wants reports of every kernel.
  std::string kernel = "a plan of the graph API";
  if (over_limit || reporter_.TellsAll()) {
    const auto json = cudnn::PlanJson(functions_, plan);
    if (json.ok()) kernel = cudnn::PlanWords(*json);
  }
  reporter_.Unread(kernel, FallbackCause::kLeftAlone, why);
  if (options_.mode != Mode::kOn) return nullptr;
  if (options_.deterministic) {
    const auto notes = cudnn::ReadNotes(functions_, plan);
    if (!notes.ok() || notes->Has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) {
      reporter_.Unread(kernel, FallbackCause::kRefused, Sentence(Detail::kNotDeterministic));
      return &refused_;
    }
  }
  if (!over_limit) return nullptr;
  reporter_.Unread(kernel, FallbackCause::kOverLimit,
                   Sentence(Detail::kStaysWhole, {*need, limit_bytes, 0, why}));
  return options_.strict_limit ? &refused_ : nullptr;
}

PlanState* GraphPlans::LeaveUnremembered(cudnnBackendDescriptor_t plan, size_t limit_bytes) {
  return ForbidsSome() ? LeaveAlone(plan, limit_bytes, Sentence(FallbackCause::kTooManyKernels))
                       : nullptr;
}

PlanState* GraphPlans::Decide(cudnnBackendDescriptor_t plan, const DescriptorShadow& shadow) {
  GraphKernel kernel;
  kernel.handle = shadow.handle;
  kernel.is_heuristics_first = shadow.is_heuristics_first;
  kernel.session = sessions_.Of(shadow.handle);
  if (kernel.session == nullptr) return nullptr;
  const size_t limit = kernel.limit_bytes = rules_.UserLimit(*kernel.session);
  // Building plans must not break another thread's capture.
  const cuda::RelaxedCaptureScope relaxed(kernel.session->driver());
  if (shadow.kind == GraphKind::kUnfamiliar) {
    return LeaveAlone(plan, limit, Sentence(Detail::kUnfamiliarShapes));
  }
  const bool undividable = shadow.kind == GraphKind::kUndividable;
  if (undividable && !splitter_.splits() && !options_.deterministic && !reporter_.TellsAll()) {
    // A plan is not reported if it fits the limit and tiles cannot speed it up. A vast plan is
    // decided about in any case: even if tiles are not allowed now, extra workspace for tiles may
    // have been promised for the plan before.
    const auto bytes = cudnn::PlanWorkspace(functions_, plan);
    const bool vast = shadow.span > static_cast<double>(rules_.most_span());
    const bool matters = bytes.ok() && (*bytes > limit || vast || rules_.Follows() ||
                                        rules_.MayUseTiles(*kernel.session, shadow.span, *bytes));
    if (!matters) return nullptr;
  }
  auto json = cudnn::PlanJson(functions_, plan);
  if (!json.ok()) {
    return shadow.kind == GraphKind::kUnknown ? nullptr : LeaveAlone(plan, limit, json.message());
  }
  // Under one limit, equal plans get equal promises, whatever their positions in heuristics lists.
  Key key{kernel.session->context(), limit, std::move(*json)};
  const std::string& text = std::get<std::string>(key);
  {
    MutexLock lock(mutex_);
    const auto known = states_.find(key);
    if (known != states_.end()) {
      return known->second == nullptr ? nullptr : known->second->Latest();
    }
    if (states_.size() >= most_kernels_) {
      reporter_.TooManyKernels();
      kernel.comes_late = true;
    }
  }
  // Other ranks may have made fewer plans and may split this plan's calls. This rank must then
  // split them, too, so it decides about the plan although the plan comes late.
  if (kernel.comes_late && !splitter_.active()) {
    const bool convolution = shadow.kind != GraphKind::kUnknown || cudnn::HoldsConvolution(text);
    return convolution ? LeaveUnremembered(plan, limit) : nullptr;
  }
  const char* const unfamiliar = cudnn::UnfamiliarAtAGlance(text);
  auto read = unfamiliar != nullptr ? Result<cudnn::GraphTemplate>(Status::Error(unfamiliar))
                                    : cudnn::ReadTemplate(functions_, plan, text);
  if (!read.ok()) {
    // A plan from JSON may compute anything, not only a convolution.
    const bool convolution = shadow.kind != GraphKind::kUnknown || cudnn::HoldsConvolution(text);
    PlanState* const refused = convolution ? LeaveAlone(plan, limit, read.message()) : nullptr;
    if (refused != nullptr || kernel.comes_late) return refused;
    MutexLock lock(mutex_);
    states_.try_emplace(std::move(key), nullptr);
    return nullptr;
  }
  const auto need = cudnn::PlanWorkspace(functions_, plan);
  if (!need.ok()) return nullptr;
  kernel.own = std::make_shared<const cudnn::GraphTemplate>(std::move(*read));
  kernel.need_bytes = *need;
  if (shadow.list != nullptr) kernel.listed = Lend(*shadow.list);
  kernel.may_measure =
      rules_.MeasuresBeforePromising(*kernel.session, kernel.problem(), Api::kGraph);
  return DecideFirst(kernel, std::move(key));
}

PlanState* GraphPlans::DecideFirst(const GraphKernel& kernel, Key key) {
  GraphAnswers steps = AnswersAbout(kernel);
  Lifecycle life({rules_, reporter_, steps});
  std::unique_ptr<PlanState> state = Make(kernel, steps, nullptr, life);
  // The plan's share is known only when the plan runs.
  if (state->budget != nullptr) state->decided_epoch = -1;
  life.Enter(*state);
  PlanState* kept = nullptr;
  {
    // If threads decide about equal plans at the same time, the first state is kept.
    MutexLock lock(mutex_);
    const uint64_t number = state->number = states_.size() + 1;
    const auto [at, is_new] = states_.try_emplace(std::move(key), std::move(state));
    kept = at->second.get();
    numbered_.resize(std::max<size_t>(numbered_.size(), number));
    if (is_new) numbered_[number - 1] = kept;
  }
  life.Published();
  return kept;
}

const PlanState* GraphPlans::FindNumbered(uint64_t number) {
  MutexLock lock(mutex_);
  assert(number > 0 && number <= numbered_.size() && numbered_[number - 1] != nullptr);
  return numbered_[number - 1];
}

std::vector<Configuration> GraphPlans::ChoicesOf(const DivisionQuestion& question) {
  const BudgetKernel& met = question.kernel;
  // Building plans must not break another thread's capture.
  const cuda::RelaxedCaptureScope relaxed(question.session.driver());
  const PlanState& state = *FindNumbered(met.plan);
  GraphKernel kernel = KernelOf(state, question.session, question.handle);
  kernel.may_measure = question.may_measure;
  GraphAnswers steps = AnswersAbout(kernel);
  steps.Know(state.other);
  const planning::PromiseRequest request =
      rules_.RequestFor(met.problem, rules_.LimitOf(*question.session.budget()));
  const planning::Rows own =
      steps.Answer(planning::Measure{state.own->convolution.engine, request});
  const planning::Rows other =
      steps.Answer(planning::Measure{state.other->convolution.engine, request});
  const std::vector<planning::Candidate> candidates = planning::CandidatesInBudget(
      own.candidates, other.candidates, met.problem.n, state.need_bytes);
  planning::Tilings tilings;
  const planning::TileUse use = rules_.UseOfTiles(question.session, met.problem, state.need_bytes);
  if (planning::MayTile(use, candidates, rules_.RequestFor(met.problem, question.part_bytes))) {
    tilings = steps.Answer(planning::FindTilings{
        state.own->convolution.engine, request,
        planning::MayMeasureTiles(use, state.need_bytes, question.part_bytes)});
  }
  return planning::OwnedChoices(candidates, request, tilings.measured);
}

}  // namespace ucudnn::interposer
