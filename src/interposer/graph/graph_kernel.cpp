#include "interposer/graph/graph_kernel.h"

#include <algorithm>

#include "cuda/resources.h"
#include "cudnn/part_engines.h"
#include "execution/schedule.h"
#include "tuning/fitting_grids.h"

namespace ucudnn::interposer {
namespace {

using planning::BuildOutcome;
using planning::Detail;

// At most so many usable configurations of a heuristics list are compared by time.
constexpr size_t kMostCompared = 3;
// At most so many engines besides the plan's own may compute the tiles of a vast plan.
constexpr size_t kMostTileEngines = 4;
constexpr int kMostEngines = 128;

std::vector<const cudnn::GraphTemplate*> Pointers(const EngineTemplates& engines) {
  std::vector<const cudnn::GraphTemplate*> pointers;
  for (const EngineTemplate& engine : engines) pointers.push_back(engine.get());
  return pointers;
}

std::vector<planning::Candidate> CandidatesOf(const std::vector<MicroConfiguration>& rows,
                                              const cudnn::GraphTemplate& engine) {
  std::vector<planning::Candidate> candidates;
  for (const MicroConfiguration& row : rows) candidates.push_back({row, engine.numeric});
  return candidates;
}

}  // namespace

std::vector<int> FormerSubstitutes::Find(uint64_t problem) {
  MutexLock lock(mutex_);
  const auto known = engines_.find(problem);
  return known == engines_.end() ? std::vector<int>() : known->second;
}

void FormerSubstitutes::Add(uint64_t problem, int engine) {
  MutexLock lock(mutex_);
  engines_[problem].push_back(engine);
}

Result<cudnn::BackendDescriptor> PlanOf(const Session& session,
                                        cudnnBackendDescriptor_t configuration,
                                        cudnnHandle_t handle) {
  const cuda::RelaxedCaptureScope relaxed(session.driver());
  UCUDNN_ASSIGN_OR_RETURN(cudnn::BackendDescriptor plan,
                          cudnn::BackendDescriptor::Create(
                              session.functions(), CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  UCUDNN_RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
  UCUDNN_RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration));
  UCUDNN_RETURN_IF_ERROR(plan.Finalize());
  return plan;
}

bool BecomesNative(const cudnn::EngineNotes& notes) {
  return std::count(notes.behavior.begin(), notes.behavior.end(),
                    CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API) > 0;
}

EngineTemplate GraphAnswers::Find(const EngineId& engine) const {
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const EngineTemplate& other) {
    return other->convolution.engine == engine;
  });
  return known == known_.end() ? nullptr : *known;
}

EngineTemplates GraphAnswers::Used(const Configuration& configuration,
                                   const MicroConfiguration& undivided) const {
  EngineTemplates used = {kernel_.own}, named = {Find(undivided.engine)};
  for (const Run& run : configuration.runs) named.push_back(Find(run.micro.engine));
  for (EngineTemplate& engine : named) {
    if (engine != nullptr && std::find(used.begin(), used.end(), engine) == used.end()) {
      used.push_back(std::move(engine));
    }
  }
  return used;
}

std::optional<NumericClass> GraphAnswers::CoarsestOf(const planning::Decision& decision) {
  return ScopeOf(Used(decision.configuration, decision.undivided)).numeric;
}

tuning::GraphScope GraphAnswers::ScopeOf(const EngineTemplates& engines) const {
  const cudnn::GraphTemplate& own = *engines[0];
  std::vector<NumericClass> classes;
  for (const EngineTemplate& engine : engines) classes.push_back(engine->numeric);
  tuning::GraphScope scope;
  scope.engine = own.convolution.engine;
  scope.numeric = Coarsest(classes);
  scope.fused = own.convolution.operands;
  scope.make = [functions = &functions_, engines](cudnnHandle_t handle) {
    return std::make_unique<cudnn::GraphEngines>(*functions, cudnn::PlanDevice{handle, nullptr},
                                                 Pointers(engines));
  };
  return scope;
}

planning::Rows GraphAnswers::Answer(const planning::Measure& question) {
  const EngineTemplate engine = Find(question.engine);
  if (engine == nullptr) return {{}, true};
  tuning::Question asked;
  asked.problem = kernel_.problem();
  // A substitute runs only undivided, so it is measured only on the whole mini-batch.
  asked.policy = engine == kernel_.own ? rules_.policy() : BatchSizePolicy::kUndivided;
  asked.request = question.request;
  asked.may_measure = kernel_.is_measured();
  asked.scope = ScopeOf({engine});
  asked.read_again = kernel_.again;
  if (kernel_.limit_bytes != kNoLimit) {
    asked.must_fit = std::min(kernel_.limit_bytes, question.request.limit_bytes);
  }
  if (kernel_.is_measured()) {
    if (engine == kernel_.own) CompareKnown(asked);
    asked.until = kernels_.EndOfTurn(asked.problem);
  }
  const tuning::MeasuredRows measured = kernels_.Get(kernel_.session->device(), asked);
  if (kernel_.is_measured() && !measured.status.ok()) {
    reporter_.Fallback(kernel_.problem(), planning::FallbackCause::kCannotBeMeasured,
                       measured.status.message());
  }
  reporter_.NoteUnlikeRanks();
  return {CandidatesOf(measured.rows, *engine), measured.settled, measured.late};
}

const EngineTemplates& GraphAnswers::EnginesOfTiles() {
  if (!tile_engines_.empty()) return tile_engines_;
  tile_engines_ = {kernel_.own};
  for (const ConvolutionProblem& tile :
       tuning::TypicalTiles(kernel_.problem(), rules_.policy(), rules_.most_span())) {
    // An engine that supports inner tiles may not support tiles at an edge, so the heuristics are
    // asked for each kind of tile.
    const size_t most = tile_engines_.size() == 1 ? kMostCompared : 1;
    for (cudnn::GraphTemplate& other :
         cudnn::EnginesOfPart(functions_, {kernel_.handle, nullptr}, *kernel_.own, tile, most)) {
      EngineTemplate known = Find(other.convolution.engine);
      if (known == nullptr) {
        known = std::make_shared<const cudnn::GraphTemplate>(std::move(other));
        known_.push_back(known);
      }
      const bool again =
          std::find(tile_engines_.begin(), tile_engines_.end(), known) != tile_engines_.end();
      if (!again && tile_engines_.size() <= kMostTileEngines) tile_engines_.push_back(known);
    }
  }
  return tile_engines_;
}

planning::Tilings GraphAnswers::Answer(const planning::FindTilings& question) {
  tuning::Question asked;
  asked.problem = kernel_.problem();
  asked.policy = rules_.policy();
  asked.request = question.request;
  asked.may_measure = kernel_.is_measured() && question.may_measure;
  const EngineTemplates engines =
      question.engine.empty() ? EnginesOfTiles() : EngineTemplates{kernel_.own};
  asked.scope = ScopeOf(engines);
  if (kernel_.is_measured()) asked.until = kernels_.EndOfTurn(asked.problem);
  tuning::TilingTask task;
  for (const EngineTemplate& engine : engines) {
    task.engines.push_back(engine->convolution.engine);
  }
  // For a vast plan, the plan's own engine is expected to be the slowest, so it is tried last.
  std::rotate(task.engines.begin(), task.engines.begin() + 1, task.engines.end());
  task.candidates = [&](const ConvolutionProblem&, const std::vector<MicroConfiguration>& rows) {
    std::vector<planning::Candidate> candidates;
    for (const MicroConfiguration& row : rows) {
      const EngineTemplate engine = Find(row.engine);
      if (engine != nullptr) candidates.push_back({row, engine->numeric});
    }
    return candidates;
  };
  planning::Tilings tilings = kernels_.GetTilings(kernel_.session->device(), asked, task);
  reporter_.NoteUnlikeRanks();
  return tilings;
}

void GraphAnswers::CompareKnown(tuning::Question question) {
  // Under one budget the division depends on the plan's share, which is known only when the plan
  // runs.
  if (kernel_.session->budget() != nullptr) return;
  question.may_measure = false;
  const tuning::MeasuredRows known = kernels_.Get(kernel_.session->device(), question);
  if (known.settled) return;
  const cudnn::GraphTemplate& own = *kernel_.own;
  const auto pieces =
      planning::PiecesOf(own.convolution.engine, CandidatesOf(known.rows, own), question.request);
  if (!pieces || pieces->configuration.Pieces() == 1) return;
  const MicroConfiguration undivided = {own.convolution.engine, kernel_.problem().n, kUnknownTime,
                                        kernel_.need_bytes, own.deterministic};
  const planning::Trust trust = Answer(planning::Compare{pieces->configuration, undivided});
  if (trust.kind == planning::Trust::Kind::kWrong) {
    reporter_.Fallback(kernel_.problem(), planning::FallbackCause::kDivisionWrong, trust.message);
  }
}

EngineTemplate GraphAnswers::Serving(Result<cudnn::GraphTemplate> other) const {
  if (!other.ok() || !cudnn::MayReplace(*other, *kernel_.own)) return nullptr;
  return std::make_shared<const cudnn::GraphTemplate>(std::move(*other));
}

EngineTemplate GraphAnswers::Serving(const EngineId& engine) const {
  return Serving(
      cudnn::WithOtherEngine(functions_, {kernel_.handle, nullptr}, *kernel_.own, engine));
}

std::optional<MicroConfiguration> GraphAnswers::UndividedOf(const cudnn::GraphTemplate& other,
                                                            size_t limit_bytes) {
  const cudnn::FusedConvolution& own = kernel_.own->convolution;
  auto built = cudnn::BuildPart(functions_, {kernel_.handle, nullptr}, other,
                                {kernel_.problem(), own.alpha, own.beta});
  if (!built.ok()) return std::nullopt;
  const auto bytes = cudnn::PlanWorkspace(functions_, built->get());
  if (!bytes.ok() || *bytes > limit_bytes) return std::nullopt;
  undivided_plans_.insert_or_assign(other.convolution.engine, std::move(*built));
  return MicroConfiguration{other.convolution.engine, kernel_.problem().n, kUnknownTime, *bytes,
                            other.deterministic};
}

std::vector<EngineId> GraphAnswers::MeasuredWhole(size_t limit_bytes) const {
  planning::MeasurementStore* const store = kernels_.store();
  if (store == nullptr) return {};
  const auto stored = store->Read(kernel_.problem(), kernel_.session->device().platform);
  const EngineId::Graph* const own = kernel_.own->convolution.engine.graph();
  if (!stored.ok() || own == nullptr) return {};
  std::vector<std::pair<double, EngineId>> ranked;
  for (const planning::Measurement& row : stored->rows) {
    const MicroConfiguration& micro = row.micro;
    const EngineId::Graph* const graph = micro.engine.graph();
    // Another program may have written the store, so its rows may hold anything.
    const bool fits = micro.IsWhole(kernel_.problem().n) && micro.workspace_bytes <= limit_bytes &&
                      micro.time_ms >= 0;
    if (fits && graph != nullptr && graph->fusion == own->fusion) {
      ranked.emplace_back(micro.time_ms, micro.engine.Unfused());
    }
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<EngineId> engines;
  for (auto& [time_ms, engine] : ranked) engines.push_back(std::move(engine));
  return engines;
}

bool GraphAnswers::Add(EngineTemplate other, size_t limit_bytes,
                       std::vector<MicroConfiguration>& found) {
  if (other == nullptr) return false;
  const std::optional<MicroConfiguration> undivided = UndividedOf(*other, limit_bytes);
  const bool known = std::any_of(found.begin(), found.end(), [&](const MicroConfiguration& before) {
    return before.engine == other->convolution.engine;
  });
  if (!undivided || known) return false;
  found.push_back(*undivided);
  if (Find(other->convolution.engine) == nullptr) known_.push_back(std::move(other));
  return true;
}

// Tries former substitutes first, because trying all engine numbers takes long.
void GraphAnswers::AddAny(size_t limit_bytes, std::vector<MicroConfiguration>& found) {
  const uint64_t hash = kernel_.problem().Hash();
  const auto add = [&](int engine) {
    return Add(Serving("graph:" + std::to_string(engine)), limit_bytes, found);
  };
  for (const int engine : former_.Find(hash)) {
    if (add(engine)) return;
  }
  for (int engine = 0; engine < kMostEngines; ++engine) {
    if (!add(engine)) continue;
    former_.Add(hash, engine);
    return;
  }
}

std::vector<MicroConfiguration> GraphAnswers::Answer(const planning::FindSubstitutes& question) {
  const size_t limit = question.limit_bytes;
  std::vector<MicroConfiguration> found;
  if (kernel_.need_bytes <= limit) {
    found.push_back({kernel_.own->convolution.engine, kernel_.problem().n, kUnknownTime,
                     kernel_.need_bytes, kernel_.own->deterministic});
    return found;
  }
  if (!question.promised.empty() && Add(Serving(question.promised.Unfused()), limit, found)) {
    return found;
  }
  // Also tries the next configurations of the list, as a framework that enforced the limit itself
  // would do.
  for (const cudnnBackendDescriptor_t configuration : kernel_.configurations()) {
    if (found.size() == kMostCompared) break;
    // Notes are read before the plan is built, because building may take long.
    const auto notes = cudnn::ConfigurationNotes(functions_, configuration);
    if (notes.ok() && !cudnn::IsExactAs(*notes, kernel_.own->notes)) continue;
    const auto plan = PlanOf(*kernel_.session, configuration, kernel_.handle);
    if (plan.ok()) Add(Serving(cudnn::ReadTemplate(functions_, plan->get())), limit, found);
  }
  for (const EngineId& engine : MeasuredWhole(limit)) {
    if (Add(Serving(engine), limit, found)) break;
  }
  if (found.empty()) AddAny(limit, found);
  return found;
}

planning::Trust GraphAnswers::Answer(const planning::Compare& question) {
  const bool capturing = kernel_.session->Capturing();
  planning::Compare asked = question;
  if (capturing) asked.proof = WithoutComparing(asked.proof);
  return kernels_.Verify(kernel_.session->device(), kernel_.problem(), asked,
                         ScopeOf(Used(question.configuration, question.against)));
}

BuildOutcome GraphAnswers::Answer(const planning::Build& question) {
  const cudnn::FusedConvolution& own = kernel_.own->convolution;
  schedule_.reset();
  if (question.in_place) {
    const EngineTemplate other = Find(question.undivided.engine);
    if (other == nullptr) return {BuildOutcome::Kind::kNoUndivided, Sentence(Detail::kNoEngine)};
    cudnn::BackendDescriptor& plan = undivided_plans_[question.undivided.engine];
    if (plan.get() == nullptr) {
      auto built = cudnn::BuildPart(functions_, {kernel_.handle, nullptr}, *other,
                                    {kernel_.problem(), own.alpha, own.beta});
      if (!built.ok()) return {BuildOutcome::Kind::kNoUndivided, built.message()};
      plan = std::move(*built);
    }
    const auto bytes = cudnn::PlanWorkspace(functions_, plan.get());
    if (!bytes.ok()) return {BuildOutcome::Kind::kNoUndivided, bytes.message()};
    if (*bytes > question.promised_bytes) {
      return {BuildOutcome::Kind::kNoUndivided,
              Sentence(Detail::kEngineNeedsMore,
                       {*bytes, question.promised_bytes, 0, other->convolution.engine.Text()})};
    }
    substitute_ = std::move(plan);
  }
  if (question.configuration.runs.empty()) return {};
  const EngineTemplates used = Used(question.configuration, question.undivided);
  cudnn::GraphEngines engines(functions_, {kernel_.handle, nullptr}, Pointers(used));
  const auto division = DivisionOf(kernel_.problem(), question.configuration);
  if (!division.ok()) return {BuildOutcome::Kind::kNoPieces, division.message()};
  auto schedule = execution::Schedule::Make(
      engines, {kernel_.problem(), *division, question.undivided, own.operands});
  if (!schedule.ok()) return {BuildOutcome::Kind::kNoPieces, schedule.message()};
  schedule_ = std::move(*schedule);
  return {};
}

planning::KeptPromise GraphAnswers::Keep(const planning::Decision& decision) {
  const planning::KeptPromise& promise = *decision.promise;
  const planning::EnginePromise given = {kernel_.problem(),
                                         kernel_.session->device().platform,
                                         kernel_.own->convolution.engine,
                                         kernel_.limit_bytes,
                                         promise.workspace_bytes,
                                         promise.undivided,
                                         promise.any_engine};
  if (decision.replaces_promise) {
    promises_.Replace(given);
    return promise;
  }
  const planning::EnginePromise kept = promises_.Keep(given);
  return {kept.workspace_bytes, kept.undivided, kept.any_engine};
}

}  // namespace ucudnn::interposer
