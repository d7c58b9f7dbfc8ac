// What is known of the engines that may serve a legacy kernel: measurements of the legacy
// algorithms and, where the user lets them, of the graph API's engines.
#include <algorithm>
#include <utility>

#include "cuda/resources.h"
#include "cudnn/problem_graph.h"
#include "interposer/interposer.h"
#include "tuning/tolerance.h"

namespace ucudnn::interposer {
namespace {

using planning::Candidate;

// Of the engines that others measured, too, only the best are looked at.
constexpr size_t kMostGraphEngines = 3;
// A graph engine so much slower on the whole mini-batch than what it could replace is not measured
// at other sizes.
constexpr double kHopeless = 1.25;
// Of what is left of the kernel's time for measuring, at most this may go to one of them: the
// legacy algorithms, which come behind kMostGraphEngines, keep more than two thirds of it.
constexpr double kTimeShare = 0.1;

}  // namespace

bool UsesGraph(const Configuration& plan) {
  return std::any_of(plan.runs.begin(), plan.runs.end(),
                     [](const Run& run) { return cudnn::IsGraphEngine(run.micro.engine); });
}

Interposer::Measurements Interposer::Measured(const Kernel& kernel,
                                              const planning::PromiseRequest& request,
                                              bool may_measure) {
  tuning::Question question{kernel.problem, options_.policy, request, may_measure};
  if (options_.engines == EngineSet::kGraph) question.policy = BatchSizePolicy::kUndivided;
  const tuning::Device device = DeviceOf(*kernel.session);
  const bool any_graph = options_.engines != EngineSet::kLegacy && functions_.HasGraphApi();
  const bool graph = kernel.graph && any_graph;
  if (any_graph && may_measure) {
    tuning::Question known = question;
    known.may_measure = false;
    // Before the legacy algorithms: who finds those measured finds all there is, and what was
    // measured without graph engines, by `ucudnn bench` or an earlier release, is enough.
    const bool whole_tried = kernels_.Get(device, known).whole_tried;
    const int platform = kernel.session->platform();
    if (!graph) {
      // The first call that they may serve finds nothing left to measure but them.
      if (!whole_tried) choices_.SetPostponed(platform, kernel.problem, true);
    } else if (!whole_tried || choices_.IsPostponed(platform, kernel.problem)) {
      const bool done = MeasureGraphEngines(kernel, request);
      choices_.SetPostponed(platform, kernel.problem, !done);
    }
  }
  Measurements measured{kernels_.Get(device, question), {}};
  if (may_measure && !measured.status.ok()) {
    Fallback(kernel.problem, "cannot be measured", measured.status.message());
  }
  NoteUnlikeRanks();
  if (graph && !measured.rows.empty()) AddGraphEngines(kernel, request, may_measure, measured);
  return measured;
}

tuning::EngineScope Interposer::ScopeOf(const GraphChoices::Template& engine) const {
  tuning::EngineScope scope;
  scope.engine = engine->plan.engine;
  scope.numeric = engine->numeric;
  scope.make = [functions = &functions_, engine](cudnnHandle_t of_ours) {
    return std::make_unique<cudnn::GraphEngines>(*functions, cudnn::PlanDevice{of_ours, nullptr},
                                                 std::vector{engine.get()});
  };
  return scope;
}

bool Interposer::MeasureGraphEngines(const Kernel& kernel,
                                     const planning::PromiseRequest& request) {
  const ConvolutionProblem& problem = kernel.problem;
  const tuning::Device device = DeviceOf(*kernel.session);
  // Building plans inside a capture could break it.
  if (Capturing(*kernel.session)) return false;
  if (!kernels_.HasTime(device, problem)) return true;
  const cuda::RelaxedCaptureScope relaxed(*driver_);
  const tuning::Clock::time_point begin = tuning::Clock::now();
  const auto in_time = [&] {
    const tuning::Clock::duration taken = tuning::Clock::now() - begin;
    return kernels_.HasTime(
        device, problem, std::chrono::duration_cast<tuning::Clock::duration>(taken / kTimeShare));
  };
  const auto engines =
      choices_.Heuristics(kernel.session->platform(), problem, kernel.handle, in_time);
  kernels_.Spend(device, problem, tuning::Clock::now() - begin);
  bool done = true;
  for (const GraphChoices::Template& engine : engines) {
    const tuning::EngineScope scope = ScopeOf(engine);
    const tuning::Answer answer = kernels_.Get(
        device, {problem, BatchSizePolicy::kUndivided, request, true, &scope, false, kTimeShare});
    done &= answer.settled;
  }
  return done || !kernels_.HasTime(device, problem);
}

void Interposer::AddGraphEngines(const Kernel& kernel, const planning::PromiseRequest& request,
                                 bool may_measure, Measurements& measured) {
  const ConvolutionProblem& problem = kernel.problem;
  const tuning::Device device = DeviceOf(*kernel.session);
  const cudnnHandle_t handle = Capturing(*kernel.session) ? nullptr : kernel.handle;
  const cuda::RelaxedCaptureScope relaxed(*driver_);
  std::vector<std::string> engines = kernels_.GraphEnginesOf(device, problem);
  engines.resize(std::min(engines.size(), kMostGraphEngines));
  const auto fastest =
      planning::FastestUndivided(cudnn::OwnMathCandidates(problem, measured.rows), request);
  for (const std::string& name : engines) {
    const GraphChoices::Template engine =
        choices_.Named(kernel.session->platform(), problem, name, handle);
    if (engine == nullptr) continue;
    const tuning::EngineScope scope = ScopeOf(engine);
    tuning::Question question{
        problem, BatchSizePolicy::kUndivided, request, may_measure, &scope, false, kTimeShare};
    tuning::Answer known = kernels_.Get(device, question);
    const bool hopeless =
        fastest && !known.rows.empty() && known.rows[0].time_ms > kHopeless * fastest->time_ms;
    if (!known.rows.empty() && !hopeless && options_.policy != BatchSizePolicy::kUndivided) {
      question.policy = options_.policy;
      known = kernels_.Get(device, question);
    }
    measured.settled &= known.settled;
    measured.graph.push_back({engine, std::move(known.rows)});
  }
}

std::vector<cudnn::MathGroup> Interposer::Groups(const ConvolutionProblem& problem,
                                                 const Measurements& measured) const {
  std::vector<cudnn::MathGroup> groups = cudnn::GroupByMath(problem, measured.rows);
  ConvolutionProblem as_asked = problem;
  for (cudnn::MathGroup& group : groups) {
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

std::vector<Candidate> Interposer::OwnCandidates(const ConvolutionProblem& problem,
                                                 const Measurements& measured) const {
  for (cudnn::MathGroup& group : Groups(problem, measured)) {
    if (group.math == problem.math) return std::move(group.candidates);
  }
  return {};
}

cudnn::MixedEngines::Templates Interposer::GraphEnginesOf(const Kernel& kernel,
                                                          const Configuration& plan) {
  cudnn::MixedEngines::Templates engines;
  for (const Run& run : plan.runs) {
    if (!cudnn::IsGraphEngine(run.micro.engine)) continue;
    auto engine =
        choices_.Named(kernel.session->platform(), kernel.problem, run.micro.engine, kernel.handle);
    if (engine != nullptr) engines.push_back(std::move(engine));
  }
  return engines;
}

Result<planning::NumericClass> Interposer::CoarsestClass(const Kernel& kernel,
                                                         const Configuration& plan,
                                                         const MicroConfiguration& undivided) {
  std::vector<Run> legacy = {{undivided, 1}};
  std::copy_if(plan.runs.begin(), plan.runs.end(), std::back_inserter(legacy),
               [](const Run& run) { return !cudnn::IsGraphEngine(run.micro.engine); });
  UCUDNN_ASSIGN_OR_RETURN(planning::NumericClass coarsest,
                          tuning::CoarsestClass(kernel.problem.operation, legacy));
  for (const auto& engine : GraphEnginesOf(kernel, plan)) {
    const bool coarser = engine->numeric != planning::NumericClass::kDirect &&
                         coarsest != planning::NumericClass::kWinograd;
    if (coarser) coarsest = engine->numeric;
  }
  return coarsest;
}

tuning::Trust Interposer::Verify(const Kernel& kernel, const Configuration& plan,
                                 const MicroConfiguration& undivided, bool may_compare) {
  const tuning::Device device = DeviceOf(*kernel.session);
  if (!UsesGraph(plan)) {
    return kernels_.Verify(device, kernel.problem, plan, undivided, may_compare);
  }
  const auto numeric = CoarsestClass(kernel, plan, undivided);
  if (!numeric.ok()) return {tuning::Trust::Kind::kUnknown, numeric.message()};
  tuning::EngineScope scope;
  scope.mixed = true;
  scope.numeric = *numeric;
  scope.make = [functions = &functions_,
                engines = GraphEnginesOf(kernel, plan)](cudnnHandle_t of_ours) {
    return std::make_unique<cudnn::MixedEngines>(*functions, of_ours, engines);
  };
  return kernels_.Verify(device, kernel.problem, plan, undivided, may_compare, &scope);
}

}  // namespace ucudnn::interposer
