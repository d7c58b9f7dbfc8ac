// What is decided when the application finalizes an execution plan: its promise, and how it is
// kept.
#include <algorithm>
#include <cstdlib>

#include "base/byte_size.h"
#include "base/log.h"
#include "interposer/graph_interposer.h"
#include "interposer/interposer.h"

namespace ucudnn::interposer {
namespace {

using planning::Candidate;
using planning::Promise;

constexpr char kOverLimit[] = "cannot be brought under the workspace limit";

std::string Pieces(const Configuration& plan) {
  return "divided into " + std::to_string(plan.Pieces()) + " micro-batches";
}

// The engine's number in "graph:38[k2=1]+relu", when it has no knobs; -1 otherwise.
int PlainNumber(const std::string& engine) {
  constexpr std::string_view kPrefix = "graph:";
  if (!engine.starts_with(kPrefix) || engine.find('[') < engine.find('+')) return -1;
  return std::atoi(engine.c_str() + kPrefix.size());
}

}  // namespace

struct GraphInterposer::Met {
  cudnnHandle_t handle = nullptr;
  Session* session = nullptr;
  Template own;
  size_t need_bytes = 0;  // of the plan as it is
  bool first = false;     // of a list of the heuristics

  const ConvolutionProblem& problem() const { return own->plan.problem; }
};

void GraphInterposer::LeaveAlone(const Met& met, const char* cause, const std::string& detail) {
  if (met.own != nullptr) return i_.Fallback(met.problem(), cause, detail);
  WarnOnce(cause, std::string("a plan of the graph API is left alone: ") + detail);
  i_.report_.AddFallback("a plan of the graph API", std::string(cause) + ": " + detail);
}

tuning::EngineScope GraphInterposer::ScopeOf(const Template& own, const Template& other) const {
  tuning::EngineScope scope;
  scope.engine = own->plan.engine;
  scope.numeric = own->numeric;
  if (other != nullptr && other->numeric != planning::NumericClass::kDirect) {
    scope.numeric = other->numeric;
  }
  scope.residual = own->plan.residual_uid.has_value();
  scope.bias_bytes = own->plan.bias_bytes;
  scope.make = [functions = &i_.functions_, own, other](cudnnHandle_t handle) {
    std::vector<const cudnn::GraphTemplate*> templates = {own.get()};
    if (other != nullptr) templates.push_back(other.get());
    return std::make_unique<cudnn::GraphEngines>(*functions, cudnn::PlanDevice{handle, nullptr},
                                                 std::move(templates));
  };
  return scope;
}

std::vector<Candidate> GraphInterposer::Candidates(const Met& met, const Template& engine,
                                                   const planning::PromiseRequest& request) {
  const tuning::EngineScope scope = ScopeOf(engine, nullptr);
  tuning::Question question{met.problem(), i_.options_.policy, request,
                            i_.MeasuresBeforePromising(*met.session), &scope};
  // Only the whole of what may take the plan's place.
  if (engine != met.own) question.policy = BatchSizePolicy::kUndivided;
  const tuning::Answer measured = i_.kernels_.Get(i_.DeviceOf(*met.session), question);
  if (question.may_measure && !measured.status.ok()) {
    i_.Fallback(met.problem(), "cannot be measured", measured.status.message());
  }
  i_.NoteUnlikeRanks();
  std::vector<Candidate> candidates;
  for (const MicroConfiguration& row : measured.rows) candidates.push_back({row, engine->numeric});
  return candidates;
}

GraphInterposer::Template GraphInterposer::FindOther(const Met& met, size_t limit_bytes) {
  const cudnn::PlanDevice device{met.handle, nullptr};
  const auto serves = [&](int engine) -> Template {
    auto other = cudnn::WithOtherEngine(i_.functions_, device, *met.own, engine);
    if (!other.ok() || !cudnn::IsExactAs(other->notes, met.own->notes)) return nullptr;
    const auto built = cudnn::BuildAtBatch(i_.functions_, device, *other, met.problem().n,
                                           met.own->plan.alpha, met.own->plan.beta);
    if (!built.ok()) return nullptr;
    const auto bytes = cudnn::PlanWorkspace(i_.functions_, built->get());
    if (!bytes.ok() || *bytes > limit_bytes) return nullptr;
    return std::make_shared<const cudnn::GraphTemplate>(std::move(*other));
  };
  // One that took another plan's place before, in this process or an earlier one, is asked first:
  // to look through all takes long.
  const uint64_t hash = met.problem().Hash();
  std::vector<int> before;
  {
    std::lock_guard lock(mutex_);
    if (const auto known = others_.find(hash); known != others_.end()) before = known->second;
  }
  for (const int engine : before) {
    if (Template other = serves(engine)) return other;
  }
  if (i_.kernels_.store() != nullptr) {
    const auto stored =
        i_.kernels_.store()->Read(met.problem(), i_.DeviceOf(*met.session).platform);
    if (stored.ok()) {
      for (const planning::Measurement& row : stored->rows) {
        const int engine = PlainNumber(row.micro.engine);
        if (engine < 0 || row.micro.micro_batch != met.problem().n) continue;
        if (row.micro.workspace_bytes > limit_bytes) continue;
        if (Template other = serves(engine)) return other;
      }
    }
  }
  constexpr int kMostEngines = 128;
  for (int engine = 0; engine < kMostEngines; ++engine) {
    Template other = serves(engine);
    if (other == nullptr) continue;
    std::lock_guard lock(mutex_);
    others_[hash].push_back(engine);
    return other;
  }
  return nullptr;
}

std::optional<Promise> GraphInterposer::PromiseWithin(const Met& met, bool first,
                                                      size_t limit_bytes, Template& other,
                                                      std::string& why) {
  const ConvolutionProblem& problem = met.problem();
  other = FindOther(met, limit_bytes);
  if (other == nullptr) {
    why = "no engine as exact and deterministic fits " + FormatByteSize(limit_bytes);
    return std::nullopt;
  }
  planning::PromiseRequest request = i_.RequestFor(problem, limit_bytes);
  const std::vector<Candidate> pieces = Candidates(met, met.own, request);
  const std::vector<Candidate> whole = Candidates(met, other, request);
  // Unmeasured, it still runs, with what the library says that it needs.
  MicroConfiguration undivided = {other->plan.engine, problem.n, kUnknownTime, limit_bytes,
                                  other->deterministic};
  for (const Candidate& candidate : whole) {
    if (candidate.micro.micro_batch == problem.n) undivided = candidate.micro;
  }
  if (undivided.time_ms < 0) {
    const auto built = cudnn::BuildAtBatch(i_.functions_, {met.handle, nullptr}, *other, problem.n,
                                           met.own->plan.alpha, met.own->plan.beta);
    const auto bytes = built.ok() ? cudnn::PlanWorkspace(i_.functions_, built->get())
                                  : Result<size_t>(built.status());
    if (bytes.ok()) undivided.workspace_bytes = *bytes;
  }
  // A plan is divided with its own engine and knobs: applications time plans against each other,
  // and build the one they chose again from its engine and knobs, also in another process. That one
  // is no longer the first of a list, and must be told the same workspace.
  std::optional<Promise> promise = planning::PiecesOf(met.own->plan.engine, pieces, request);
  const bool other_is_faster =
      promise && undivided.time_ms >= 0 &&
      undivided.time_ms < (1 - planning::kHysteresis) * promise->plan.TimeMs();
  const size_t promised_bytes = promise ? promise->plan.WorkspaceBytes() : 0;
  if (!promise && !pieces.empty() && !first) {
    why = "no division fits " + FormatByteSize(limit_bytes);
    return std::nullopt;
  }
  // Of the first plan of a list an application that times nothing takes whatever it is. Where
  // nothing is known of the pieces, something must run inside the limit.
  if (!promise || (first && other_is_faster)) {
    promise = promise.value_or(Promise{});
    promise->plan = {{{undivided, 1}}};
  }
  promise->undivided = undivided;
  promise->fastest_undivided = undivided.time_ms >= 0 ? undivided : MicroConfiguration{};
  promise->workspace_bytes = std::max(promised_bytes, undivided.workspace_bytes);
  promise->limit_bytes = limit_bytes;
  return promise;
}

void GraphInterposer::Plan(const Met& met, GraphDecision& decision, KernelRecord& record) {
  const ConvolutionProblem& problem = met.problem();
  const size_t user_limit = i_.UserLimit(*met.session);
  const size_t limit = std::min(user_limit, met.need_bytes);
  const bool must_shrink = met.need_bytes > user_limit;
  record.limit_bytes = user_limit == kNoLimit ? met.need_bytes : user_limit;
  const planning::PromiseRequest request = i_.RequestFor(problem, limit);
  if (i_.options_.deterministic && !met.own->deterministic) {
    decision.refused = true;
    record.reason = "not deterministic: refused";
    return;
  }
  if (i_.options_.mode != Mode::kOn || problem.n == 1) {
    record.reason = i_.options_.mode != Mode::kOn ? "observed: runs as the caller asked"
                                                  : "cannot be divided: runs as the caller asked";
    if (must_shrink && i_.options_.mode == Mode::kOn) LeaveAlone(met, kOverLimit, record.reason);
    decision.refused = must_shrink && i_.options_.strict_limit && i_.options_.mode == Mode::kOn;
    return;
  }
  const auto trusted = [&](const Promise& promise, const Template& other, std::string& why) {
    const tuning::EngineScope scope = ScopeOf(met.own, other);
    const tuning::Trust trust =
        i_.kernels_.Verify(i_.DeviceOf(*met.session), problem, promise.plan, promise.undivided,
                           !i_.Capturing(*met.session), &scope);
    why = trust.message;
    if (trust.kind == tuning::Trust::Kind::kWrong) {
      i_.Fallback(problem, "a divided plan is wrong and never used", trust.message);
    }
    return trust.kind;
  };
  constexpr int kAttempts = 4;
  std::string why;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Template other;
    std::optional<Promise> promise;
    if (must_shrink) {
      promise = PromiseWithin(met, met.first, limit, other, why);
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
    if (!promise) {
      record.reason = why;
      if (must_shrink) {
        decision.refused = i_.options_.strict_limit;
        LeaveAlone(met, kOverLimit, why);
      }
      return;
    }
    auto trust = tuning::Trust::Kind::kTrusted;
    if (promise->plan.Pieces() > 1) trust = trusted(*promise, other, why);
    if (trust == tuning::Trust::Kind::kWrong) continue;
    if (trust == tuning::Trust::Kind::kUnknown && !must_shrink) {
      record.reason = "as the caller asked, because the plan was not yet compared with it: " + why;
      return;
    }
    // Everything that the promise needs is there before it is given.
    std::vector<const cudnn::GraphTemplate*> templates = {met.own.get()};
    if (other != nullptr) templates.push_back(other.get());
    cudnn::GraphEngines engines(i_.functions_, {met.handle, nullptr}, std::move(templates));
    cudnn::BackendDescriptor substitute;
    if (must_shrink) {
      auto built = cudnn::BuildAtBatch(i_.functions_, {met.handle, nullptr}, *other, problem.n,
                                       met.own->plan.alpha, met.own->plan.beta);
      const auto bytes = built.ok() ? cudnn::PlanWorkspace(i_.functions_, built->get())
                                    : Result<size_t>(built.status());
      if (!bytes.ok() || *bytes > promise->workspace_bytes) {
        record.reason = "nothing undivided is ready inside the promise";
        return LeaveAlone(met, kOverLimit, record.reason);
      }
      substitute = std::move(*built);
    }
    if (promise->plan.Pieces() > 1) {
      auto plan = execution::PlannedConvolution::Create(engines, problem, promise->plan,
                                                        promise->undivided);
      if (!plan.ok()) {
        record.reason = "the plan could not be prepared: " + plan.message();
        return LeaveAlone(met, "a plan could not be prepared", plan.message());
      }
      decision.plan = std::move(*plan);
    }
    decision.substitute = std::move(substitute);
    decision.promised_bytes = promise->workspace_bytes;
    decision.numeric = ScopeOf(met.own, other).numeric;
    decision.barred = trust == tuning::Trust::Kind::kUnknown;
    record.plan = decision.barred ? Configuration{{{promise->undivided, 1}}} : promise->plan;
    record.workspace_bytes = promise->workspace_bytes;
    record.undivided = promise->fastest_undivided;
    record.reason =
        decision.barred ? "undivided, because the plan was not yet compared with it: " + why
        : decision.plan != nullptr ? Pieces(promise->plan)
                                   : "an engine that fits, in place of " + met.own->plan.engine;
    return;
  }
  record.reason = "every division of it was found wrong";
  if (must_shrink) LeaveAlone(met, kOverLimit, record.reason);
}

GraphDecision* GraphInterposer::Decide(cudnnBackendDescriptor_t plan,
                                       const DescriptorShadow& shadow) {
  Met met;
  met.handle = shadow.handle;
  met.first = shadow.first;
  met.session = i_.SessionOf(shadow.handle);
  if (met.session == nullptr) return nullptr;
  if (shadow.kind == GraphKind::kUndividable) {
    // Nothing is to be said of it where no limit bites.
    const auto bytes = cudnn::PlanWorkspace(i_.functions_, plan);
    if (!bytes.ok() || *bytes <= i_.UserLimit(*met.session)) return nullptr;
  }
  auto json = cudnn::PlanJson(i_.functions_, plan);
  if (!json.ok()) return nullptr;
  // Equal plans get equal promises, whatever their place in a list.
  std::pair<CUcontext, std::string> key{met.session->context(), std::move(*json)};
  {
    std::lock_guard lock(mutex_);
    const auto known = decisions_.find(key);
    if (known != decisions_.end()) return known->second.get();
    if (decisions_.size() >= kMostKernels) {
      i_.TooManyKernels();
      return nullptr;
    }
  }
  auto read = cudnn::ReadTemplate(i_.functions_, plan);
  if (!read.ok()) {
    if (shadow.kind != GraphKind::kUnknown) LeaveAlone(met, "left alone", read.message());
    std::lock_guard lock(mutex_);
    decisions_.try_emplace(std::move(key), nullptr);
    return nullptr;
  }
  const auto need = cudnn::PlanWorkspace(i_.functions_, plan);
  if (!need.ok()) return nullptr;
  met.own = std::make_shared<const cudnn::GraphTemplate>(std::move(*read));
  met.need_bytes = *need;
  auto decision = std::make_unique<GraphDecision>();
  decision->own = met.own;
  decision->context = met.session->context();
  decision->promised_bytes = met.need_bytes;
  decision->wide_alpha = met.own->plan.alpha;
  decision->wide_beta = met.own->plan.beta;
  decision->alpha = static_cast<float>(met.own->plan.alpha);
  decision->beta = static_cast<float>(met.own->plan.beta);
  KernelRecord record;
  record.api = "graph";
  record.problem = met.problem();
  record.workspace_bytes = met.need_bytes;
  record.plan = {{{{met.own->plan.engine, met.problem().n, kUnknownTime, met.need_bytes,
                    met.own->deterministic},
                   1}}};
  Plan(met, *decision, record);
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
