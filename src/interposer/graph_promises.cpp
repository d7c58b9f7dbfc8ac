// What an execution plan that needs more than the limit may be promised, and from what it is known.
#include <algorithm>
#include <cstdlib>

#include "base/byte_size.h"
#include "interposer/graph_interposer.h"
#include "interposer/interposer.h"
#include "interposer/met_plan.h"

namespace ucudnn::interposer {
namespace {

using planning::Candidate;
using planning::EnginePromise;
using planning::Promise;

// The engine's number in "graph:38[k2=1]+relu", when it has no knobs; -1 otherwise.
int PlainNumber(const std::string& engine) {
  constexpr std::string_view kPrefix = "graph:";
  if (!engine.starts_with(kPrefix) || engine.find('[') < engine.find('+')) return -1;
  return std::atoi(engine.c_str() + kPrefix.size());
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

GraphInterposer::Template GraphInterposer::Serving(const Met& met, std::string_view engine) const {
  auto other = cudnn::WithOtherEngine(i_.functions_, {met.handle, nullptr}, *met.own, engine);
  if (!other.ok() || !cudnn::IsExactAs(other->notes, met.own->notes)) return nullptr;
  // For fp32, tensor cores compute in TF32.
  const auto in_tf32 = [&](const cudnn::GraphTemplate& one) {
    return met.problem().type == DataType::kFloat &&
           one.notes.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  };
  if (in_tf32(*other) && !in_tf32(*met.own)) return nullptr;
  return std::make_shared<const cudnn::GraphTemplate>(std::move(*other));
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

GraphInterposer::Template GraphInterposer::FindOther(const Met& met, const EnginePromise* promised,
                                                     size_t limit_bytes) {
  if (met.need_bytes <= limit_bytes) return met.own;
  const auto serves = [&](int engine) -> Template {
    Template other = Serving(met, "graph:" + std::to_string(engine));
    constexpr size_t kTooMuch = std::numeric_limits<size_t>::max();
    const bool fits = other != nullptr && limit_bytes < kTooMuch &&
                      UndividedOf(met, other, kTooMuch).workspace_bytes <= limit_bytes;
    return fits ? other : nullptr;
  };
  // One that took another plan's place before, in this process or an earlier one, is asked first:
  // to look through all takes long.
  const uint64_t hash = met.problem().Hash();
  std::vector<int> before;
  {
    std::lock_guard lock(mutex_);
    if (const auto known = others_.find(hash); known != others_.end()) before = known->second;
  }
  if (const int engine = promised == nullptr ? -1 : PlainNumber(promised->undivided); engine >= 0) {
    before.insert(before.begin(), engine);
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

std::optional<Promise> GraphInterposer::PromiseWithin(Met& met, const EnginePromise* promised,
                                                      size_t limit_bytes, Template& other,
                                                      std::string& why) {
  const ConvolutionProblem& problem = met.problem();
  const bool in_library = met.session->network() != nullptr;
  if (promised != nullptr && !in_library) limit_bytes = promised->workspace_bytes;
  other = FindOther(met, promised, limit_bytes);
  if (other == nullptr) {
    why = "no engine as exact and deterministic fits " + FormatByteSize(limit_bytes);
    return std::nullopt;
  }
  if (in_library) return PromiseInLibrary(met, other);
  planning::PromiseRequest request = i_.RequestFor(problem, limit_bytes);
  const std::vector<Candidate> pieces = Candidates(met, met.own, request);
  const std::vector<Candidate> whole = Candidates(met, other, request);
  // Unmeasured, it still runs, with what the library says that it needs.
  const auto measured = std::find_if(whole.begin(), whole.end(), [&](const Candidate& candidate) {
    return candidate.micro.micro_batch == problem.n && candidate.micro.time_ms >= 0;
  });
  const MicroConfiguration undivided =
      measured != whole.end() ? measured->micro : UndividedOf(met, other, limit_bytes);
  // A plan is divided with its own engine and knobs: applications time plans against each other,
  // and build the one they chose again from its engine and knobs, also in another process. Of the
  // first plan of a list an application that times nothing takes whatever it is.
  const bool any_engine = promised != nullptr ? promised->any_engine : met.first;
  std::optional<Promise> promise = planning::PiecesOf(met.own->plan.engine, pieces, request);
  const bool other_is_faster =
      promise && undivided.time_ms >= 0 &&
      undivided.time_ms < (1 - planning::kHysteresis) * promise->plan.TimeMs();
  const size_t pieces_bytes = promise ? promise->plan.WorkspaceBytes() : 0;
  if (!promise && !pieces.empty() && !any_engine && promised == nullptr) {
    why = "no division fits " + FormatByteSize(limit_bytes);
    return std::nullopt;
  }
  // Where nothing is known of the pieces, something must run inside the limit; where they no longer
  // fit, inside what was promised.
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
