// What is decided when the application finalizes an execution plan: its promise, and how it is
// kept.
#include <algorithm>

#include "base/byte_size.h"
#include "base/log.h"
#include "cuda/resources.h"
#include "interposer/graph_interposer.h"
#include "interposer/interposer.h"
#include "interposer/met_plan.h"
#include "planning/library_promise.h"

namespace ucudnn::interposer {
namespace {

using planning::Candidate;
using planning::EnginePromise;
using planning::Promise;

constexpr char kOverLimit[] = "cannot be brought under the workspace limit";

// What there is to say of `promise`, when `in_place` of the plan's own engine another one runs.
std::string Reason(const Promise& promise, const std::string& in_place) {
  if (promise.plan.Pieces() > 1) {
    return "divided into " + std::to_string(promise.plan.Pieces()) + " micro-batches";
  }
  return promise.library_bytes > 0 ? "undivided, in the library's workspace"
                                   : "an engine that fits, in place of " + in_place;
}

// Ends a thread's look.
class Looking {
 public:
  explicit Looking(std::atomic<bool>& looking) : looking_(looking) {}
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;
  ~Looking() { looking_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool>& looking_;
};

// Calls after which a plan that is not settled after `calls` is looked at again.
long Later(long calls) { return std::max(2 * calls, calls + 1); }

}  // namespace

void GraphInterposer::LeaveAlone(const Met& met, const char* cause, const std::string& detail) {
  if (met.own != nullptr) return i_.Fallback(met.problem(), cause, detail);
  WarnOnce(cause, std::string("a plan of the graph API is left alone: ") + detail);
  i_.report_.AddFallback("a plan of the graph API", std::string(cause) + ": " + detail);
}

tuning::Trust::Kind GraphInterposer::Compare(const Met& met, const Promise& promise,
                                             const Templates& others, std::string& why) {
  const tuning::EngineScope scope = ScopeOf(met.own, others);
  const tuning::Trust trust =
      i_.kernels_.Verify(i_.DeviceOf(*met.session), met.problem(), promise.plan, promise.undivided,
                         !i_.Capturing(*met.session), &scope);
  why = trust.message;
  if (trust.kind == tuning::Trust::Kind::kWrong) {
    i_.Fallback(met.problem(), "a divided plan is wrong and never used", trust.message);
  }
  return trust.kind;
}

Result<cudnn::BackendDescriptor> GraphInterposer::BuildSubstitute(const Met& met,
                                                                  const Template& other,
                                                                  size_t limit_bytes) const {
  UCUDNN_ASSIGN_OR_RETURN(
      cudnn::BackendDescriptor built,
      cudnn::BuildAtBatch(i_.functions_, {met.handle, nullptr}, *other, met.problem().n,
                          met.own->plan.alpha, met.own->plan.beta));
  UCUDNN_ASSIGN_OR_RETURN(const size_t bytes, cudnn::PlanWorkspace(i_.functions_, built.get()));
  if (bytes > limit_bytes) {
    return Status::Error(other->plan.engine + " needs " + std::to_string(bytes) + " bytes, not " +
                         std::to_string(limit_bytes));
  }
  return built;
}

Status GraphInterposer::MakePieces(const Met& met, const Promise& promise, const Templates& others,
                                   GraphDecision& decision) const {
  std::vector<const cudnn::GraphTemplate*> templates = {met.own.get()};
  for (const Template& other : others) templates.push_back(other.get());
  cudnn::GraphEngines engines(i_.functions_, {met.handle, nullptr}, std::move(templates));
  UCUDNN_ASSIGN_OR_RETURN(
      decision.plan, execution::PlannedConvolution::Create(engines, met.problem(), promise.plan,
                                                           promise.undivided));
  decision.pieces = promise.plan;
  return Status::Ok();
}

void GraphInterposer::Plan(Met& met, GraphDecision& decision, KernelRecord& record) {
  const ConvolutionProblem& problem = met.problem();
  const size_t user_limit = met.limit_bytes;
  const size_t limit = std::min(user_limit, met.need_bytes);
  Network* const network = met.session->network();
  // What a plan file gives workspace of one budget is told only when it runs.
  const bool must_shrink =
      met.need_bytes > user_limit || (network != nullptr && PinnedKernelOf(met) != nullptr);
  record.limit_bytes = user_limit == kNoLimit ? met.need_bytes : user_limit;
  const planning::PromiseRequest request = i_.RequestFor(problem, limit);
  if (i_.options_.mode != Mode::kOn) {
    record.reason = "observed: runs as the caller asked";
    return;
  }
  if (i_.options_.deterministic && !met.own->deterministic) {
    decision.refused = true;
    record.reason = "not deterministic: refused";
    return;
  }
  const auto stays = [&](std::string why) {
    record.reason = std::move(why);
    if (!must_shrink) return;
    decision.refused = i_.options_.strict_limit;
    LeaveAlone(met, kOverLimit, record.reason);
  };
  if (FollowFile(met, decision, record)) return;
  if (problem.n == 1 && !must_shrink) {
    record.reason = "cannot be divided: runs as the caller asked";
    return;
  }
  std::optional<EnginePromise> promised = met.promised;
  const EnginePromise asked = {problem, i_.DeviceOf(*met.session).platform, met.own->plan.engine,
                               user_limit};
  if (must_shrink && !promised) promised = promises_.Find(asked);
  bool anew = false;  // what was promised before cannot be kept
  constexpr int kAttempts = 4;
  std::string why;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Template other;
    std::optional<Promise> promise;
    if (must_shrink) {
      promise = PromiseWithin(met, promised ? &*promised : nullptr, limit, other, why);
      if (!promise && promised && !met.promised) {
        i_.Fallback(problem, "an earlier promise cannot be kept", why);
        promised.reset();
        anew = true;
        promise = PromiseWithin(met, nullptr, limit, other, why);
      }
    } else {
      const std::vector<Candidate> candidates = Candidates(met, met.own, request);
      promise = planning::MakePromise(candidates, request);
      if (candidates.empty()) why = "not measured: runs as the caller asked";
      if (promise) record.undivided = promise->fastest_undivided;
      if (promise && promise->plan.Pieces() == 1) {
        record.plan = promise->plan;
        why = "nothing is faster than what the caller asked for";
        promise.reset();
      }
    }
    if (!promise) return stays(why);
    auto trust = tuning::Trust::Kind::kTrusted;
    const Templates others = other != nullptr ? Templates{other} : Templates{};
    if (promise->plan.Pieces() > 1) trust = Compare(met, *promise, others, why);
    if (trust == tuning::Trust::Kind::kWrong) {
      if (!must_shrink || attempt + 1 < kAttempts) continue;
      // What is undivided keeps the promise.
      promise = planning::Whole(*promise);
    }
    if (trust == tuning::Trust::Kind::kUnknown && !must_shrink) {
      met.compared = false;
      record.reason = "as the caller asked, because the plan was not yet compared with it: " + why;
      return;
    }
    // Everything that the promise needs is there before it is given.
    cudnn::BackendDescriptor substitute;
    if (must_shrink) {
      auto built = BuildSubstitute(met, other, promise->workspace_bytes);
      if (!built.ok()) return stays("nothing undivided is ready inside the promise");
      substitute = std::move(*built);
    }
    const bool any_engine = met.first || promise->plan.Largest().engine != met.own->plan.engine;
    if (promise->plan.Pieces() > 1 || promise->library_bytes > 0) {
      if (const Status made = MakePieces(met, *promise, others, decision); !made.ok()) {
        LeaveAlone(met, "a plan could not be prepared", made.message());
        met.compared = false;
        if (!must_shrink || !(any_engine || promised || network != nullptr)) {
          return stays("the plan could not be prepared: " + made.message());
        }
        promise = planning::Whole(*promise);
      }
    }
    if (must_shrink && !promised) {
      promised = asked;
      promised->workspace_bytes = promise->workspace_bytes;
      promised->undivided = promise->undivided.engine;
      promised->any_engine = any_engine;
      if (anew) {
        promises_.Replace(*promised);
      } else if (EnginePromise first = promises_.Keep(*promised); first != *promised) {
        // Another process was first.
        promised = std::move(first);
        decision.plan.reset();
        continue;
      }
    }
    decision.promise = std::move(promised);
    decision.substitute = std::move(substitute);
    decision.promised_bytes = promise->workspace_bytes;
    decision.numeric = ScopeOf(met.own, others).numeric;
    decision.barred = decision.plan != nullptr && trust == tuning::Trust::Kind::kUnknown;
    met.compared &= !decision.barred;
    if (must_shrink) {
      decision.network = network;
      decision.other = other;
      decision.library = met.library;
      decision.library.bytes = promise->library_bytes;
      if (network != nullptr) record.limit_bytes = promise->limit_bytes;
    }
    record.library_bytes = decision.barred ? 0 : promise->library_bytes;
    record.plan = decision.barred ? Configuration{{{promise->undivided, 1}}} : promise->plan;
    record.workspace_bytes = promise->workspace_bytes;
    record.undivided = promise->fastest_undivided;
    record.reason = decision.barred
                        ? "undivided, because the plan was not yet compared with it: " + why
                        : Reason(*promise, met.own->plan.engine);
    return;
  }
  stays("every division of it was found wrong");
}

std::unique_ptr<GraphDecision> GraphInterposer::Make(Met& met, KernelRecord& record) {
  auto decision = std::make_unique<GraphDecision>();
  decision->own = met.own;
  decision->context = met.session->context();
  decision->need_bytes = decision->promised_bytes = met.need_bytes;
  decision->leads = met.first;
  decision->limit_bytes = met.limit_bytes;
  decision->wide_alpha = met.own->plan.alpha;
  decision->wide_beta = met.own->plan.beta;
  decision->alpha = static_cast<float>(met.own->plan.alpha);
  decision->beta = static_cast<float>(met.own->plan.beta);
  record.api = "graph";
  record.problem = met.problem();
  record.workspace_bytes = met.need_bytes;
  record.plan = {{{{met.own->plan.engine, met.problem().n, kUnknownTime, met.need_bytes,
                    met.own->deterministic},
                   1}}};
  Plan(met, *decision, record);
  return decision;
}

long GraphInterposer::NextLook(const Met& met, long calls) const {
  const bool on = i_.Tunes(*met.session, met.problem(), false);
  // Where this process measures nothing, another one may have.
  const bool more_may_come =
      !met.compared || (on ? !met.settled : !met.measured && i_.kernels_.store() != nullptr);
  if (!more_may_come) return GraphDecision::kFinal;
  return std::max(on ? i_.NextLook(calls) : 0, Later(calls));
}

GraphDecision* GraphInterposer::Improve(cudnnHandle_t handle, GraphDecision& decision, long calls) {
  // One thread looks; the others go on with what there is.
  if (decision.looking.exchange(true, std::memory_order_acquire)) return &decision;
  const Looking looking(decision.looking);
  const int epoch = decision.network == nullptr ? 0 : decision.network->epoch();
  const int looked_at = decision.looked_at.exchange(epoch);
  const bool redivided = decision.network != nullptr && looked_at != epoch;
  long due = decision.due_at.exchange(GraphDecision::kFinal);
  if ((due == GraphDecision::kFinal && !redivided) || *decision.failed) return &decision;
  const cuda::RelaxedCaptureScope relaxed(*i_.driver_);
  try {
    Met met;
    met.handle = handle;
    met.session = i_.SessionOf(handle);
    // What has run once outside is worth more to a capture than what is known by now.
    if (met.session == nullptr || met.session->context() != decision.context ||
        i_.Capturing(*met.session)) {
      decision.due_at = due;
      decision.looked_at = looked_at;
      return &decision;
    }
    met.own = decision.own;
    met.need_bytes = decision.need_bytes;
    met.limit_bytes = decision.limit_bytes;
    met.promised = decision.promise;
    met.first = decision.leads;
    met.again = true;
    met.may_measure =
        i_.Tunes(*met.session, met.problem(), false) && calls >= i_.options_.tuning.after_calls;
    met.library.epoch = epoch;
    if (decision.network != nullptr) FindShare(met, decision);
    KernelRecord record;
    std::unique_ptr<GraphDecision> better = Make(met, record);
    due = NextLook(met, calls);
    const bool keeps = better->smaller() == decision.smaller() &&
                       better->promised_bytes == decision.promised_bytes && !better->refused;
    // What was compared stays until the better plan is, but for what has no workspace any more.
    const bool lost = redivided && decision.library.bytes > 0;
    const bool not_yet = decision.may_divide() && !met.compared && !lost;
    const bool same = record == decision.record->record && !redivided;
    if (!keeps || not_yet || same) {
      // What its workspace was taken from is to be looked for again.
      decision.due_at = lost ? std::min(due, Later(calls)) : due;
      return &decision;
    }
    better->due_at = due;
    better->failed = decision.failed;
    better->first = decision.first;
    better->looked_at = epoch;
    if (record.plan == decision.record->record.plan) better->ran = decision.ran.load();
    bool fresh = false;
    better->record = i_.report_.Record(std::move(record), decision.record, fresh);
    GraphDecision* const latest = better.get();
    {
      std::lock_guard lock(mutex_);
      improved_.push_back(std::move(better));
    }
    decision.better.store(latest, std::memory_order_release);
    if (fresh) i_.WriteReport();
    return latest;
  } catch (...) {
    WarnOnce("memory", "out of host memory: a plan stays as it was decided");
    decision.due_at = Later(calls);
    return &decision;
  }
}

GraphDecision* GraphInterposer::Alone(const Met& met, cudnnBackendDescriptor_t plan,
                                      const std::string& why) {
  LeaveAlone(met, "left alone", why);
  if (i_.options_.mode != Mode::kOn) return nullptr;
  if (i_.options_.deterministic) {
    const auto notes = cudnn::ReadNotes(i_.functions_, plan);
    if (!notes.ok() || notes->Has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) {
      LeaveAlone(met, "refused", "not deterministic");
      return &refused_;
    }
  }
  const auto need = cudnn::PlanWorkspace(i_.functions_, plan);
  if (!need.ok() || *need <= met.limit_bytes) return nullptr;
  LeaveAlone(met, kOverLimit, FormatByteSize(*need) + " of a plan that is left alone");
  return i_.options_.strict_limit ? &refused_ : nullptr;
}

GraphDecision* GraphInterposer::Decide(cudnnBackendDescriptor_t plan,
                                       const DescriptorShadow& shadow) {
  Met met;
  met.handle = shadow.handle;
  met.first = shadow.first;
  met.list = shadow.list;
  met.session = i_.SessionOf(shadow.handle);
  if (met.session == nullptr) return nullptr;
  met.limit_bytes = i_.UserLimit(*met.session);
  // Another thread may capture, in a mode that forbids us to build plans.
  const cuda::RelaxedCaptureScope relaxed(*i_.driver_);
  if (shadow.kind == GraphKind::kUnfamiliar) {
    return Alone(met, plan, "a convolution of dynamic or ragged shapes");
  }
  const bool undividable = shadow.kind == GraphKind::kUndividable;
  if (undividable && !i_.options_.deterministic && !i_.TellsAll()) {
    // Nothing is to be said of it where no limit bites.
    const auto bytes = cudnn::PlanWorkspace(i_.functions_, plan);
    if (!bytes.ok() || *bytes <= met.limit_bytes) return nullptr;
  }
  auto json = cudnn::PlanJson(i_.functions_, plan);
  if (!json.ok()) {
    return shadow.kind == GraphKind::kUnknown ? nullptr : Alone(met, plan, json.message());
  }
  // Equal plans get equal promises under one limit, whatever their place in a list.
  Key key{met.session->context(), met.limit_bytes, std::move(*json)};
  const std::string& text = std::get<std::string>(key);
  {
    std::lock_guard lock(mutex_);
    const auto known = decisions_.find(key);
    if (known != decisions_.end()) {
      return known->second == nullptr ? nullptr : known->second->Latest();
    }
    if (decisions_.size() >= kMostKernels) {
      i_.TooManyKernels();
      return nullptr;
    }
  }
  const char* const unfamiliar = cudnn::UnfamiliarAtAGlance(text);
  auto read = unfamiliar != nullptr ? Result<cudnn::GraphTemplate>(Status::Error(unfamiliar))
                                    : cudnn::ReadTemplate(i_.functions_, plan, text);
  if (!read.ok()) {
    // What came as JSON may compute anything.
    const bool convolution = shadow.kind != GraphKind::kUnknown || cudnn::HoldsConvolution(text);
    GraphDecision* const refused = convolution ? Alone(met, plan, read.message()) : nullptr;
    if (refused != nullptr) return refused;
    std::lock_guard lock(mutex_);
    decisions_.try_emplace(std::move(key), nullptr);
    return nullptr;
  }
  const auto need = cudnn::PlanWorkspace(i_.functions_, plan);
  if (!need.ok()) return nullptr;
  met.own = std::make_shared<const cudnn::GraphTemplate>(std::move(*read));
  met.need_bytes = *need;
  met.may_measure = i_.MeasuresBeforePromising(*met.session, met.problem(), false);
  KernelRecord record;
  std::unique_ptr<GraphDecision> decision = Make(met, record);
  // What was told its whole need over the limit stays told that.
  const bool may_improve = decision->smaller() || met.need_bytes <= met.limit_bytes;
  decision->due_at = may_improve ? NextLook(met, 0) : GraphDecision::kFinal;
  bool fresh = false;
  decision->record = i_.report_.Record(std::move(record), nullptr, fresh);
  GraphDecision* kept = nullptr;
  {
    // Threads that decide about equal plans at once keep the first one's.
    std::lock_guard lock(mutex_);
    kept = decisions_.try_emplace(std::move(key), std::move(decision)).first->second.get();
  }
  if (fresh) i_.WriteReport();
  return kept;
}

}  // namespace ucudnn::interposer
