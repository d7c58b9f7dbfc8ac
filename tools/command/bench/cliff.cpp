#include "command/bench/cliff.h"

#include <algorithm>
#include <utility>

#include "command/bench/devices.h"
#include "command/bench/measure.h"
#include "cuda/resources.h"
#include "cudnn/descriptors.h"
#include "planning/promise.h"
#include "tuning/race.h"

namespace ucudnn::command {
namespace {

Contender Undivided(const MicroConfiguration& micro) { return {Configuration{{{micro, 1}}}, 0}; }

// Sets cliff.real to the fastest undivided engine within the limit of `request`, and cliff.ucudnn
// to the choice of a run with these options within that limit. Leaves a member unset if nothing
// fits.
Status ChooseWithin(const tuning::KernelToMeasure& kernel, const planning::PromiseRequest& request,
                    const Options& options, tuning::LegacyKernels& legacy, Cliff& cliff) {
  const tuning::LegacyRows measured = legacy.Get(kernel, request);
  if (!measured.status.ok()) return measured.status;
  const auto candidates = tuning::OwnCandidates(kernel.problem, measured);
  const MicroConfiguration real = planning::FindBaselines(candidates, request).any_api;
  if (!real.engine.empty()) cliff.real = Undivided(real);
  const planning::Tilings tilings = TilingsOf(kernel, options, candidates, request, legacy);
  const auto promise = planning::OrInTiles(planning::MakePromise(candidates, request),
                                           tilings.measured, candidates, request);
  if (!promise) return Status::Ok();
  UCUDNN_ASSIGN_OR_RETURN(Division division, DivisionOf(kernel.problem, promise->configuration));
  cliff.ucudnn = Contender{std::move(division), 0};
  return Status::Ok();
}

Result<Cliff> MeasureCliff(tuning::KernelToMeasure kernel, const Layer& layer,
                           const Options& options, tuning::MeasuredKernels& kernels) {
  planning::PromiseRequest request =
      planning::RequestFor(layer.problem, planning::kNoLimit, options.deterministic);
  const cudnn::Functions& functions = *kernel.device.functions;
  Options undivided = options;
  undivided.policy = BatchSizePolicy::kUndivided;
  tuning::LegacyKernels wholes(functions, undivided, kernels), legacy(functions, options, kernels);
  const tuning::LegacyRows whole = wholes.Get(kernel, request);
  if (!whole.status.ok()) return whole.status;
  const MicroConfiguration best =
      planning::FindBaselines(tuning::OwnCandidates(layer.problem, whole), request).any_api;
  if (best.engine.empty()) return Status::Error("no engine runs it as it was asked for");
  const size_t one_less = std::max<size_t>(best.workspace_bytes, 1) - 1;
  Cliff cliff{layer, Undivided(best), options.workspace_limit.value_or(one_less), {}, {}};
  request.limit_bytes = cliff.limit_bytes;
  if (cliff.HasCliff()) {
    UCUDNN_RETURN_IF_ERROR(ChooseWithin(kernel, request, options, legacy, cliff));
  }
  // If ucudnn would run what the real library runs, cliff.real and cliff.ucudnn share one run.
  const bool same = cliff.real && cliff.ucudnn &&
                    cliff.real->division.configuration == cliff.ucudnn->division.configuration;
  std::vector<Contender*> contenders = {&cliff.best};
  std::vector<tuning::Racer> racing;
  if (cliff.real) contenders.push_back(&*cliff.real);
  if (cliff.ucudnn && !same) contenders.push_back(&*cliff.ucudnn);
  for (const Contender* contender : contenders) {
    const size_t bytes = contender == &cliff.best ? best.workspace_bytes : cliff.limit_bytes;
    racing.push_back(
        {contender->division, bytes,
         legacy.ScopeOf(legacy.GraphEnginesOf(kernel, contender->division.configuration))});
  }
  const tuning::RaceResult race = tuning::Race(kernel.device, layer.problem, racing, {});
  UCUDNN_RETURN_IF_ERROR(race.status);
  for (size_t at = 0; at < contenders.size(); ++at) contenders[at]->run_ms = race.times_ms[at];
  if (same) cliff.ucudnn->run_ms = cliff.real->run_ms;
  return cliff;
}

}  // namespace

CliffTotal Cliffs::Total() const {
  CliffTotal total;
  for (const Cliff& cliff : kernels) {
    if (cliff.HasCliff() && (!cliff.real || !cliff.ucudnn)) {
      ++total.left_out;
      continue;
    }
    total.best_ms += cliff.best.run_ms;
    total.real_ms += cliff.HasCliff() ? cliff.real->run_ms : cliff.best.run_ms;
    total.ucudnn_ms += cliff.HasCliff() ? cliff.ucudnn->run_ms : cliff.best.run_ms;
  }
  return total;
}

Result<Cliffs> MeasureCliffs(const std::vector<Layer>& layers, const Options& options,
                             EngineSet engines, planning::MeasurementStore* store,
                             const std::function<void(const Layer&)>& progress) {
  BenchDevices devices;
  std::vector<std::string> refused;
  UCUDNN_RETURN_IF_ERROR(devices.Open(options, {}, refused));
  tuning::HeldDevice& bench = devices.first();
  const cuda::ContextScope context(*bench.device().driver, bench.device().context);
  UCUDNN_ASSIGN_OR_RETURN(const cudnnHandle_t handle, bench.Handle());
  // The command has no time budget: it measures everything that was requested.
  tuning::MeasuredKernels kernels(store, std::nullopt, options.lock_folder);
  Cliffs cliffs;
  cliffs.platform = bench.device().platform;
  for (Layer layer : layers) {
    // A run looks for measurements with the alignment of a program's legacy calls.
    layer.problem.alignment = cudnn::kLegacyAlignment;
    progress(layer);
    tuning::KernelToMeasure kernel{bench.device(), layer.problem, 0, handle};
    kernel.graph = engines != EngineSet::kLegacy;
    kernel.may_measure = options.tuning.on;
    kernel.catch_up = true;
    Result<Cliff> cliff = MeasureCliff(std::move(kernel), layer, options, kernels);
    if (!cliff.ok()) return Status::Error(layer.name + ": " + cliff.message());
    cliffs.kernels.push_back(std::move(*cliff));
  }
  cliffs.measured = kernels.measured();
  return cliffs;
}

}  // namespace ucudnn::command
