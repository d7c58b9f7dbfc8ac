// What an execution plan that needs more than the limit may be promised, and from what it is known.
#include <algorithm>
#include <limits>

#include "base/byte_size.h"
#include "cudnn/engine_name.h"
#include "interposer/graph_interposer.h"
#include "interposer/interposer.h"
#include "interposer/met_plan.h"

namespace ucudnn::interposer {
namespace {

using planning::Candidate;
using planning::EnginePromise;
using planning::Promise;

// Engines of a heuristics' list that are looked at, and timed against each other, to run in a
// plan's place.
constexpr size_t kMostCompared = 3;

const MicroConfiguration* WholeOf(const std::vector<Candidate>& candidates, int n) {
  for (const Candidate& candidate : candidates) {
    const MicroConfiguration& micro = candidate.micro;
    if (micro.micro_batch == n && micro.time_ms >= 0) return &micro;
  }
  return nullptr;
}

}  // namespace

tuning::EngineScope GraphInterposer::ScopeOf(const Template& own, const Templates& others) const {
  tuning::EngineScope scope;
  scope.engine = own->plan.engine;
  scope.numeric = own->numeric;
  for (const Template& other : others) {
    if (other->numeric != planning::NumericClass::kDirect) scope.numeric = other->numeric;
  }
  scope.residual = own->plan.residual_uid.has_value();
  scope.bias_bytes = own->plan.bias_bytes;
  scope.make = [functions = &i_.functions_, own, others](cudnnHandle_t handle) {
    std::vector<const cudnn::GraphTemplate*> templates = {own.get()};
    for (const Template& other : others) templates.push_back(other.get());
    return std::make_unique<cudnn::GraphEngines>(*functions, cudnn::PlanDevice{handle, nullptr},
                                                 std::move(templates));
  };
  return scope;
}

std::vector<Candidate> GraphInterposer::Candidates(Met& met, const Template& engine,
                                                   const planning::PromiseRequest& request) {
  const tuning::EngineScope scope = ScopeOf(engine, {});
  tuning::Question question{met.problem(), i_.options_.policy, request, met.may_measure,
                            &scope,        met.again};
  // Only the whole of what may take the plan's place.
  if (engine != met.own) question.policy = BatchSizePolicy::kUndivided;
  const tuning::Answer measured = i_.kernels_.Get(i_.DeviceOf(*met.session), question);
  if (question.may_measure && !measured.status.ok()) {
    i_.Fallback(met.problem(), "cannot be measured", measured.status.message());
  }
  met.settled &= measured.settled;
  if (engine == met.own) met.measured = !measured.rows.empty();
  i_.NoteUnlikeRanks();
  std::vector<Candidate> candidates;
  for (const MicroConfiguration& row : measured.rows) candidates.push_back({row, engine->numeric});
  return candidates;
}

GraphInterposer::Template GraphInterposer::Serving(const Met& met,
                                                   Result<cudnn::GraphTemplate> other) const {
  if (!other.ok() || !cudnn::IsExactAs(other->notes, met.own->notes)) return nullptr;
  // For fp32, tensor cores compute in TF32.
  const auto in_tf32 = [&](const cudnn::GraphTemplate& one) {
    return met.problem().type == DataType::kFloat &&
           one.notes.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  };
  if (in_tf32(*other) && !in_tf32(*met.own)) return nullptr;
  cudnn::GraphPlan same = other->plan;
  same.engine = met.own->plan.engine;
  if (same != met.own->plan) return nullptr;
  return std::make_shared<const cudnn::GraphTemplate>(std::move(*other));
}

GraphInterposer::Template GraphInterposer::Serving(const Met& met, std::string_view engine) const {
  return Serving(met,
                 cudnn::WithOtherEngine(i_.functions_, {met.handle, nullptr}, *met.own, engine));
}

MicroConfiguration GraphInterposer::UndividedOf(const Met& met, const Template& other,
                                                size_t otherwise) const {
  const auto built = cudnn::BuildAtBatch(i_.functions_, {met.handle, nullptr}, *other,
                                         met.problem().n, met.own->plan.alpha, met.own->plan.beta);
  const auto bytes = built.ok() ? cudnn::PlanWorkspace(i_.functions_, built->get())
                                : Result<size_t>(built.status());
  return {other->plan.engine, met.problem().n, kUnknownTime, bytes.ok() ? *bytes : otherwise,
          other->deterministic};
}

std::vector<std::string> GraphInterposer::MeasuredWhole(const Met& met, size_t limit_bytes) const {
  if (i_.kernels_.store() == nullptr) return {};
  const auto stored = i_.kernels_.store()->Read(met.problem(), i_.DeviceOf(*met.session).platform);
  if (!stored.ok()) return {};
  const std::string& own = met.own->plan.engine;
  const std::string fusion = own.substr(cudnn::Unfused(own).size());
  std::vector<std::pair<double, std::string>> ranked;
  for (const planning::Measurement& row : stored->rows) {
    const MicroConfiguration& micro = row.micro;
    const std::string_view name = cudnn::Unfused(micro.engine);
    // A store written by others may hold anything.
    const bool fits = micro.micro_batch == met.problem().n &&
                      micro.workspace_bytes <= limit_bytes && micro.time_ms >= 0;
    if (fits && cudnn::ParseEngineName(name) && micro.engine.substr(name.size()) == fusion) {
      ranked.emplace_back(micro.time_ms, name);
    }
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> engines;
  for (auto& [time_ms, engine] : ranked) engines.push_back(std::move(engine));
  return engines;
}

GraphInterposer::Templates GraphInterposer::FindOthers(const Met& met,
                                                       const EnginePromise* promised,
                                                       size_t limit_bytes) {
  if (met.need_bytes <= limit_bytes) return {met.own};
  Templates found;
  const auto add = [&](Template other) {
    constexpr size_t kTooMuch = std::numeric_limits<size_t>::max();
    const bool fits = other != nullptr && limit_bytes < kTooMuch &&
                      UndividedOf(met, other, kTooMuch).workspace_bytes <= limit_bytes;
    const bool known = fits && std::any_of(found.begin(), found.end(), [&](const Template& before) {
                         return before->plan.engine == other->plan.engine;
                       });
    if (!fits || known) return false;
    found.push_back(std::move(other));
    return true;
  };
  if (promised != nullptr && add(Serving(met, cudnn::Unfused(promised->undivided)))) return found;
  // What a framework that kept the limit itself would come to next.
  const std::vector<cudnnBackendDescriptor_t> listed =
      met.list == nullptr ? std::vector<cudnnBackendDescriptor_t>() : shadows_.Alive(*met.list);
  for (const cudnnBackendDescriptor_t configuration : listed) {
    if (found.size() == kMostCompared) break;
    // Before the plan is built, which may take long.
    const auto notes = cudnn::ConfigurationNotes(i_.functions_, configuration);
    if (notes.ok() && !cudnn::IsExactAs(*notes, met.own->notes)) continue;
    const auto plan = PlanOf(configuration, met.handle);
    if (plan.ok()) add(Serving(met, cudnn::ReadTemplate(i_.functions_, plan->get())));
  }
  for (const std::string& engine : MeasuredWhole(met, limit_bytes)) {
    if (add(Serving(met, engine))) break;
  }
  if (!found.empty()) return found;
  // To look through all takes long: one that took another plan's place before comes first.
  const auto add_number = [&](int engine) {
    return add(Serving(met, "graph:" + std::to_string(engine)));
  };
  const uint64_t hash = met.problem().Hash();
  std::vector<int> before;
  {
    std::lock_guard lock(mutex_);
    if (const auto known = others_.find(hash); known != others_.end()) before = known->second;
  }
  for (const int engine : before) {
    if (add_number(engine)) return found;
  }
  constexpr int kMostEngines = 128;
  for (int engine = 0; engine < kMostEngines; ++engine) {
    if (!add_number(engine)) continue;
    std::lock_guard lock(mutex_);
    others_[hash].push_back(engine);
    break;
  }
  return found;
}

GraphInterposer::Template GraphInterposer::FindOther(const Met& met, const EnginePromise* promised,
                                                     size_t limit_bytes) {
  const Templates others = FindOthers(met, promised, limit_bytes);
  return others.empty() ? nullptr : others[0];
}

GraphInterposer::Template GraphInterposer::FindBestOther(Met& met, const EnginePromise* promised,
                                                         const planning::PromiseRequest& request) {
  const Templates others = FindOthers(met, promised, request.limit_bytes);
  // What only waits for pieces to fail need not be the fastest.
  const bool runs =
      met.session->network() != nullptr || (promised != nullptr ? promised->any_engine : met.first);
  if (others.size() < 2 || !runs) return others.empty() ? nullptr : others[0];
  // The first is what the heuristics hold to be fastest: others take its place only where both were
  // timed.
  Template best;
  double best_ms = 0;
  for (const Template& other : others) {
    const std::vector<Candidate> candidates = Candidates(met, other, request);
    const MicroConfiguration* const whole = WholeOf(candidates, met.problem().n);
    if (whole == nullptr && best == nullptr) return other;
    if (whole == nullptr) continue;
    if (best == nullptr || whole->time_ms < best_ms) {
      best = other;
      best_ms = whole->time_ms;
    }
  }
  return best;
}

std::optional<Promise> GraphInterposer::PromiseWithin(Met& met, const EnginePromise* promised,
                                                      size_t limit_bytes, Template& other,
                                                      std::string& why) {
  const ConvolutionProblem& problem = met.problem();
  const bool in_library = met.session->network() != nullptr;
  if (promised != nullptr && !in_library) limit_bytes = promised->workspace_bytes;
  const planning::PromiseRequest request = i_.RequestFor(problem, limit_bytes);
  other = FindBestOther(met, promised, request);
  if (other == nullptr) {
    why = "no engine as exact and deterministic fits " + FormatByteSize(limit_bytes);
    return std::nullopt;
  }
  if (in_library) return PromiseInLibrary(met, other);
  const std::vector<Candidate> pieces = Candidates(met, met.own, request);
  const std::vector<Candidate> whole = Candidates(met, other, request);
  // Unmeasured, it still runs, with what the library says that it needs.
  const MicroConfiguration* const measured = WholeOf(whole, problem.n);
  const MicroConfiguration undivided =
      measured != nullptr ? *measured : UndividedOf(met, other, limit_bytes);
  // A plan is divided with its own engine and knobs: applications time plans against each other,
  // and build the one they chose again from its engine and knobs, also in another process. Of the
  // first plan of a list an application that times nothing takes whatever it is.
  const bool any_engine = promised != nullptr ? promised->any_engine : met.first;
  std::optional<Promise> promise = planning::PiecesOf(met.own->plan.engine, pieces, request);
  const bool other_is_faster =
      promise && undivided.time_ms >= 0 &&
      undivided.time_ms < (1 - planning::kHysteresis) * promise->plan.TimeMs();
  const size_t pieces_bytes = promise ? promise->plan.WorkspaceBytes() : 0;
  // Nothing is promised that another engine alone would keep: an application that times plans would
  // time that one under many names, and what is promised once leaves no room for pieces later.
  if (!promise && !any_engine && promised == nullptr) {
    why = (pieces.empty() ? "its divisions are not measured, none is known to fit "
                          : "no division fits ") +
          FormatByteSize(limit_bytes);
    return std::nullopt;
  }
  // Of a list's first plan something must run inside the limit; where pieces no longer fit, inside
  // what was promised.
  if (!promise || (any_engine && other_is_faster)) {
    promise = promise.value_or(Promise{});
    promise->plan = {{{undivided, 1}}};
  }
  promise->undivided = undivided;
  promise->fastest_undivided = undivided.time_ms >= 0 ? undivided : MicroConfiguration{};
  // The one that is built again must be told the same.
  promise->workspace_bytes = promised != nullptr
                                 ? promised->workspace_bytes
                                 : std::max(pieces_bytes, undivided.workspace_bytes);
  promise->limit_bytes = limit_bytes;
  return promise;
}

}  // namespace ucudnn::interposer
