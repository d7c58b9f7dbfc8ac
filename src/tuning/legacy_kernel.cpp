#include "tuning/legacy_kernel.h"

#include <algorithm>
#include <map>
#include <utility>

#include "convolution/tiles.h"
#include "cuda/resources.h"
#include "cudnn/legacy_engines.h"
#include "cudnn/problem_graph.h"
#include "planning/math_groups.h"
#include "tuning/fitting_grids.h"
#include "tuning/tolerance.h"

namespace ucudnn::tuning {
namespace {

using planning::Candidate;

// The most graph engines that are considered for a kernel. If this process and others have measured
// more engines than this, the fastest ones are considered.
constexpr size_t kMostGraphEngines = 3;
// The most engines for the tiles of a kernel (EnginesOfTiles). All choices for the first problem
// that has any are taken, and one further choice for each later problem.
constexpr size_t kMostTileEngines = 4;
// The most algorithms over the limit that are considered for tiles: the fastest ones.
constexpr size_t kMostAlgorithms = 3;
// A graph engine is not measured at smaller sizes if on the whole mini-batch it is slower by this
// factor than the engine that it could replace.
constexpr double kHopeless = 1.25;
// The fraction of the kernel's remaining time that measuring a graph engine may take. The legacy
// algorithms are measured after up to kMostGraphEngines = 3 graph engines. So at least 0.9^3 = 73 %
// of the time is left for the legacy algorithms.
constexpr double kTimeShare = 0.1;

// Removes the rows of engines that can run pieces but not all `images`. If such an engine were
// reported to a program, the program would ask the library for the engine's workspace for the whole
// mini-batch.
void KeepServing(int images, cudnn::LegacyNeeds& needs, std::vector<MicroConfiguration>& rows) {
  std::map<EngineId, bool> serves;
  for (const MicroConfiguration& row : rows) serves[row.engine] |= row.IsWhole(images);
  for (auto& [engine, whole] : serves) {
    whole = whole || needs.Of(images, engine) != cudnn::LegacyNeeds::kNeverServes;
  }
  std::erase_if(rows, [&](const MicroConfiguration& row) { return !serves[row.engine]; });
}

}  // namespace

std::vector<planning::MathGroup> Groups(const ConvolutionProblem& problem,
                                        const LegacyRows& measured) {
  std::vector<planning::MathGroup> groups = planning::GroupByMath(problem, measured.rows);
  ConvolutionProblem as_asked = problem;
  for (planning::MathGroup& group : groups) {
    as_asked.math = group.math;
    for (const GraphRows& graph : measured.graph) {
      if (!cudnn::MayServe(graph.engine->notes, as_asked)) continue;
      for (const MicroConfiguration& row : graph.rows) {
        group.candidates.push_back({row, graph.engine->numeric, false});
      }
    }
  }
  return groups;
}

std::vector<Candidate> OwnCandidates(const ConvolutionProblem& problem,
                                     const LegacyRows& measured) {
  for (planning::MathGroup& group : Groups(problem, measured)) {
    if (group.math == problem.math) return std::move(group.candidates);
  }
  return {};
}

LegacyRows LegacyKernels::Get(const KernelToMeasure& kernel,
                              const planning::PromiseRequest& request) {
  Question question{kernel.problem, options_.policy, request, kernel.may_measure};
  if (options_.engines == EngineSet::kGraph) question.policy = BatchSizePolicy::kUndivided;
  if (kernel.may_measure) question.until = kernels_.EndOfTurn(kernel.problem);
  cudnn::LegacyNeeds needs(functions_, kernel.handle, kernel.problem);
  if (kernel.handle != nullptr) {
    question.need = [&](int images, const EngineId& engine) { return needs.Of(images, engine); };
  }
  if (kernel.must_fit) question.must_fit = std::min(*kernel.must_fit, request.limit_bytes);
  // Engines and pieces that bring the kernel under the limit are measured first, because graph
  // engines only make the kernel faster.
  const Status fitted = kernels_.MeasureFitting(kernel.device, question);
  const bool any_graph = options_.engines != EngineSet::kLegacy && functions_.HasGraphApi();
  const bool graph = kernel.graph && any_graph;
  if (any_graph && kernel.may_measure) {
    Question known = question;
    known.may_measure = false;
    // `whole_tried` says that the legacy algorithms were tried on the whole mini-batch. Graph
    // engines are measured before the legacy algorithms. So if `whole_tried` is true, graph engines
    // were measured, or `ucudnn bench` or an earlier release measured without them. They are
    // measured again only if `catch_up` or IsPostponed demands it.
    const bool whole_tried = kernels_.Get(kernel.device, known).whole_tried;
    if (!graph) {
      // Later, the first call that graph engines may serve measures only the graph engines.
      if (!whole_tried) choices_.SetPostponed(kernel.platform, kernel.problem, true);
    } else if (kernel.catch_up || !whole_tried ||
               choices_.IsPostponed(kernel.platform, kernel.problem)) {
      const bool done = MeasureGraphEngines(kernel, question);
      choices_.SetPostponed(kernel.platform, kernel.problem, !done);
    }
  }
  LegacyRows measured{kernels_.Get(kernel.device, question), {}};
  if (!measured.status.ok() && !fitted.ok()) measured.status = fitted;
  if (kernel.handle != nullptr) KeepServing(kernel.problem.n, needs, measured.rows);
  if (graph && !measured.rows.empty()) AddGraphEngines(kernel, question, measured);
  return measured;
}

GraphScope LegacyKernels::ScopeOf(const GraphChoices::Template& engine) const {
  GraphScope scope;
  scope.engine = engine->convolution.engine;
  scope.numeric = engine->numeric;
  scope.make = [functions = &functions_, engine](cudnnHandle_t of_ours) {
    return std::make_unique<cudnn::GraphEngines>(*functions, cudnn::PlanDevice{of_ours, nullptr},
                                                 std::vector{engine.get()});
  };
  return scope;
}

Question LegacyKernels::OfEngine(const GraphChoices::Template& engine,
                                 const Question& question) const {
  Question of_engine{question.problem, BatchSizePolicy::kUndivided, question.request,
                     question.may_measure, ScopeOf(engine)};
  of_engine.legacy_share = kTimeShare;
  of_engine.until = question.until;
  return of_engine;
}

bool LegacyKernels::MeasureGraphEngines(const KernelToMeasure& kernel, const Question& question) {
  const ConvolutionProblem& problem = kernel.problem;
  // Building the engines makes plans, which could break the capture.
  if (kernel.capturing) return false;
  if (!kernels_.HasTime(kernel.device, problem)) return true;
  const cuda::RelaxedCaptureScope relaxed(*kernel.device.driver);
  const Clock::time_point begin = Clock::now();
  const auto in_time = [&] {
    const Clock::time_point now = Clock::now();
    const auto needed = std::chrono::duration_cast<Clock::duration>((now - begin) / kTimeShare);
    return now + needed < question.until && kernels_.HasTime(kernel.device, problem, needed);
  };
  std::vector<GraphChoices::Template> engines;
  {
    const Waiting waiting(kernels_.progress());
    kernels_.progress().Tell({Activity::kBuildingEngines, &problem});
    engines = choices_.Heuristics(kernel.platform, problem, kernel.handle, in_time);
  }
  kernels_.Spend(kernel.device, problem, Clock::now() - begin);
  bool done = true;
  for (const GraphChoices::Template& engine : engines) {
    done &= kernels_.Get(kernel.device, OfEngine(engine, question)).settled;
  }
  return done || !kernels_.HasTime(kernel.device, problem);
}

void LegacyKernels::AddGraphEngines(const KernelToMeasure& kernel, const Question& question,
                                    LegacyRows& measured) {
  const ConvolutionProblem& problem = kernel.problem;
  const cudnnHandle_t handle = kernel.capturing ? nullptr : kernel.handle;
  const cuda::RelaxedCaptureScope relaxed(*kernel.device.driver);
  std::vector<EngineId> engines = kernels_.GraphEnginesOf(kernel.device, problem);
  engines.resize(std::min(engines.size(), kMostGraphEngines));
  const auto fastest = planning::FastestUndivided(
      planning::OwnMathCandidates(problem, measured.rows), question.request);
  for (const EngineId& name : engines) {
    const GraphChoices::Template engine = choices_.Named(kernel.platform, problem, name, handle);
    if (engine == nullptr) continue;
    Question of_engine = OfEngine(engine, question);
    MeasuredRows known = kernels_.Get(kernel.device, of_engine);
    const bool hopeless =
        fastest && !known.rows.empty() && known.rows[0].time_ms > kHopeless * fastest->time_ms;
    if (!known.rows.empty() && !hopeless && options_.policy != BatchSizePolicy::kUndivided) {
      of_engine.policy = options_.policy;
      known = kernels_.Get(kernel.device, of_engine);
    }
    measured.settled &= known.settled;
    measured.late |= known.late;
    measured.graph.push_back({engine, std::move(known.rows)});
  }
}

std::vector<GraphChoices::Template> LegacyKernels::EnginesOfTiles(const KernelToMeasure& kernel) {
  std::vector<GraphChoices::Template> engines;
  if (options_.engines == EngineSet::kLegacy || !functions_.HasGraphApi()) return engines;
  const auto in_time = [&] { return kernels_.HasTime(kernel.device, kernel.problem); };
  std::vector<ConvolutionProblem> asked = TypicalTiles(kernel.problem, options_.policy);
  asked.push_back(kernel.problem);
  for (const ConvolutionProblem& problem : asked) {
    // Each of these problems may add engines: a tile at an edge may lack engines that inner tiles
    // have, and the whole convolution may have engines that also serve tiles.
    const size_t most = engines.empty() ? kMostGraphEngines : 1;
    const size_t before = engines.size();
    for (auto& engine : choices_.Heuristics(kernel.platform, problem, kernel.handle, in_time)) {
      const bool known = std::any_of(engines.begin(), engines.end(), [&](const auto& other) {
        return other->convolution.engine == engine->convolution.engine;
      });
      const bool few = engines.size() < before + most && engines.size() < kMostTileEngines;
      if (!known && few) engines.push_back(std::move(engine));
    }
  }
  return engines;
}

std::vector<EngineId> LegacyKernels::AlgorithmsOver(const KernelToMeasure& kernel,
                                                    const Question& question) {
  Question known = question;
  known.may_measure = false;
  std::vector<std::pair<double, EngineId>> over;
  for (const Candidate& candidate :
       planning::OwnMathCandidates(kernel.problem, kernels_.Get(kernel.device, known).rows)) {
    const MicroConfiguration& micro = candidate.micro;
    const bool fits = micro.workspace_bytes <= question.request.limit_bytes;
    if (micro.IsWhole(kernel.problem.n) && !fits) over.emplace_back(micro.time_ms, micro.engine);
  }
  std::sort(over.begin(), over.end());
  over.resize(std::min(over.size(), kMostAlgorithms));
  std::vector<EngineId> engines;
  for (auto& [time_ms, engine] : over) engines.push_back(std::move(engine));
  return engines;
}

planning::Tilings LegacyKernels::GetTilings(const KernelToMeasure& kernel,
                                            const planning::PromiseRequest& request) {
  Question question{kernel.problem, options_.policy, request};
  // Measuring tiles makes plans, which a capture forbids.
  question.may_measure = kernel.may_measure && !kernel.capturing && kernel.handle != nullptr;
  TilingTask task;
  if (!question.may_measure) return kernels_.GetTilings(kernel.device, question, task);
  question.until = kernels_.EndOfTurn(kernel.problem);
  const cuda::RelaxedCaptureScope relaxed(*kernel.device.driver);
  const Clock::time_point begin = Clock::now();
  const cudnn::MixedEngines::Templates engines = EnginesOfTiles(kernel);
  kernels_.Spend(kernel.device, kernel.problem, Clock::now() - begin);
  for (const auto& engine : engines) task.engines.push_back(engine->convolution.engine);
  if (task.engines.empty()) task.engines = AlgorithmsOver(kernel, question);
  question.scope = ScopeOf(engines);
  task.candidates = [&](const ConvolutionProblem& tile,
                        const std::vector<MicroConfiguration>& rows) {
    std::vector<Candidate> candidates;
    // Legacy algorithms may rely on the alignment of the whole tensors, so they serve only tiles
    // with the same alignment.
    const bool legacy =
        options_.engines != EngineSet::kGraph && tile.alignment == kernel.problem.alignment;
    if (legacy) candidates = planning::OwnMathCandidates(tile, rows);
    for (const MicroConfiguration& row : rows) {
      for (const auto& engine : engines) {
        if (engine->convolution.engine != row.engine) continue;
        candidates.push_back({row, engine->numeric, false});
      }
    }
    return candidates;
  };
  return kernels_.GetTilings(kernel.device, question, task);
}

MixedScope LegacyKernels::ScopeOf(cudnn::MixedEngines::Templates engines) const {
  MixedScope scope;
  scope.make = [functions = &functions_, engines = std::move(engines)](cudnnHandle_t of_ours) {
    return std::make_unique<cudnn::MixedEngines>(*functions, of_ours, engines);
  };
  return scope;
}

planning::Tilings LegacyKernels::WithoutSlower(const KernelToMeasure& kernel,
                                               const std::vector<Candidate>& candidates,
                                               const planning::PromiseRequest& request,
                                               planning::Tilings tilings, planning::Proof proof) {
  for (;;) {
    const auto promise = planning::OrInTiles(planning::MakePromise(candidates, request),
                                             tilings.measured, candidates, request);
    if (!promise || !promise->configuration.IsTiled()) return tilings;
    const Trust trust = Verify(kernel, {promise->configuration, promise->undivided, proof, false,
                                        promise->baselines.any_api});
    if (trust.kind != Trust::Kind::kSlower) return tilings;
    std::erase_if(tilings.measured, [&](const planning::Tiling& tiling) {
      return tiling.grid == promise->configuration.grid;
    });
    tilings.why = trust.message;
  }
}

cudnn::MixedEngines::Templates LegacyKernels::GraphEnginesOf(const KernelToMeasure& kernel,
                                                             const Configuration& configuration) {
  cudnn::MixedEngines::Templates engines;
  const auto tiles = DivisionOf(kernel.problem, configuration);
  for (size_t run = 0; run < configuration.runs.size(); ++run) {
    const EngineId& named = configuration.runs[run].micro.engine;
    if (!named.of_graph_api()) continue;
    auto engine = choices_.Named(kernel.platform, kernel.problem, named, kernel.handle);
    // The graph of a tile may have an engine that the graph of the whole convolution lacks.
    if (engine == nullptr && tiles.ok() && tiles->tiles != nullptr) {
      engine =
          choices_.Named(kernel.platform, tiles->tiles->kinds[run].problem, named, kernel.handle);
    }
    if (engine != nullptr) engines.push_back(std::move(engine));
  }
  return engines;
}

Result<NumericClass> LegacyKernels::CoarsestClass(const KernelToMeasure& kernel,
                                                  const Configuration& configuration,
                                                  const MicroConfiguration& undivided) {
  std::vector<Run> legacy = {{undivided, 1}};
  std::copy_if(configuration.runs.begin(), configuration.runs.end(), std::back_inserter(legacy),
               [](const Run& run) { return !run.micro.engine.of_graph_api(); });
  UCUDNN_ASSIGN_OR_RETURN(NumericClass coarsest,
                          tuning::CoarsestClass(kernel.problem.operation, legacy));
  for (const auto& engine : GraphEnginesOf(kernel, configuration)) {
    coarsest = Coarsest({coarsest, engine->numeric});
  }
  return coarsest;
}

Trust LegacyKernels::Verify(const KernelToMeasure& kernel, const planning::Compare& question) {
  const Configuration& configuration = question.configuration;
  const Configuration other{{{question.faster_than, 1}}};
  if (!planning::UsesGraph(configuration) && !planning::UsesGraph(other)) {
    return kernels_.Verify(kernel.device, kernel.problem, question);
  }
  const auto numeric = CoarsestClass(kernel, configuration, question.against);
  if (!numeric.ok()) return {Trust::Kind::kUnknown, numeric.message()};
  cudnn::MixedEngines::Templates engines = GraphEnginesOf(kernel, configuration);
  for (auto& engine : GraphEnginesOf(kernel, other)) engines.push_back(std::move(engine));
  MixedScope scope = ScopeOf(std::move(engines));
  scope.numeric = *numeric;
  return kernels_.Verify(kernel.device, kernel.problem, question, scope);
}

}  // namespace ucudnn::tuning
