#include "command/bench/measure.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "command/bench/devices.h"
#include "command/json.h"
#include "cuda/resources.h"
#include "cudnn/descriptors.h"
#include "planning/decision/decide.h"
#include "planning/decision/promises.h"
#include "planning/decision/tile_use.h"
#include "planning/workspace_reuse.h"
#include "tuning/legacy_kernel.h"
#include "tuning/spread.h"

namespace ucudnn::command {
namespace {

// Returns the candidates among which a run with these options would choose.
std::vector<planning::Candidate> Usable(const ConvolutionProblem& problem, const Options& options,
                                        const tuning::LegacyRows& measured) {
  std::vector<planning::Candidate> usable = tuning::OwnCandidates(problem, measured);
  std::erase_if(usable, [&](const planning::Candidate& candidate) {
    return options.deterministic && !candidate.micro.deterministic;
  });
  return usable;
}

std::optional<MicroConfiguration> BestUndivided(const std::vector<planning::Candidate>& usable,
                                                const planning::PromiseRequest& request) {
  std::optional<MicroConfiguration> best;
  for (const planning::Candidate* candidate : planning::AllowedCandidates(usable, request)) {
    const MicroConfiguration& micro = candidate->micro;
    if (!micro.IsWhole(request.n)) continue;
    if (!best || micro.time_ms < best->time_ms) best = micro;
  }
  return best;
}

planning::Proof ProofFor(const Options& options) {
  return options.tuning.on ? planning::Proof::kOnce : planning::Proof::kKnown;
}

MeasuredLayer Choose(const Layer& layer, const std::vector<planning::Candidate>& usable,
                     const planning::Tilings& tilings, const planning::PromiseRequest& request) {
  MeasuredLayer chosen{layer, planning::FastestUndivided(usable, request),
                       BestUndivided(usable, request), std::nullopt};
  std::vector<MicroConfiguration> rows;
  for (const planning::Candidate& candidate : usable) rows.push_back(candidate.micro);
  auto divided =
      planning::OptimizeWorkspaceReuse(rows, request.n, request.step, request.limit_bytes);
  auto tiles = planning::FastestTiles(tilings.measured, request, NumericClass::kWinograd);
  if (tiles && (!divided || tiles->TimeMs() < divided->TimeMs())) divided = std::move(tiles);
  if (!divided) return chosen;
  auto division = DivisionOf(layer.problem, *divided);
  if (division.ok()) chosen.divided = std::move(*division);
  return chosen;
}

// Returns the undivided engine with whose output a division's output is compared: the fastest
// engine within the limit or, if no engine fits the limit, the fastest one with any workspace.
std::optional<MicroConfiguration> Reference(const MeasuredLayer& chosen,
                                            const std::vector<planning::Candidate>& usable,
                                            planning::PromiseRequest request) {
  if (chosen.undivided) return chosen.undivided;
  request.limit_bytes = std::numeric_limits<size_t>::max();
  return planning::FastestUndivided(usable, request);
}

// Marks the division's tiles in the store as verified. The store keeps the rows of tiles under
// SlackTwin(kind).
void MarkTiles(const tuning::KernelToMeasure& kernel, const Division& division,
               planning::MeasurementStore* store) {
  if (store == nullptr || division.tiles == nullptr) return;
  for (size_t kind = 0; kind < division.tiles->kinds.size(); ++kind) {
    MicroConfiguration row = division.configuration.runs[kind].micro;
    row.tile = {};
    const Status marked =
        store->MarkVerified(SlackTwin(division.tiles->kinds[kind]), kernel.device.platform, {row});
    if (!marked.ok()) return;  // without the mark, a run compares these tiles once more
  }
}

// Chooses as a run with these options would, and compares the chosen division's output with that of
// an undivided engine. If the division's output is wrong, chooses again. After kAttempts wrong
// divisions, leaves `divided` unset.
Result<MeasuredLayer> ChooseVerified(const tuning::KernelToMeasure& kernel, const Layer& layer,
                                     const Options& options, tuning::LegacyKernels& kernels,
                                     planning::MeasurementStore* store) {
  constexpr int kAttempts = 4;
  const planning::PromiseRequest request = planning::RequestFor(
      layer.problem, options.workspace_limit.value_or(std::numeric_limits<size_t>::max()),
      options.deterministic);
  std::vector<std::string> wrong;
  for (int attempt = 0;; ++attempt) {
    const tuning::LegacyRows measured = kernels.Get(kernel, request);
    if (!measured.status.ok()) return measured.status;
    const std::vector<planning::Candidate> usable = Usable(layer.problem, options, measured);
    MeasuredLayer chosen =
        Choose(layer, usable, TilingsOf(kernel, options, usable, request, kernels), request);
    chosen.wrong = wrong;
    if (!chosen.divided) return chosen;
    const Configuration& divided = chosen.divided->configuration;
    if (divided.Pieces() == 1 && !planning::UsesGraph(divided)) return chosen;
    const std::optional<MicroConfiguration> reference = Reference(chosen, usable, request);
    const tuning::Trust trust =
        reference ? kernels.Verify(kernel, {divided, *reference, ProofFor(options)})
                  : tuning::Trust{tuning::Trust::Kind::kUnknown, "no undivided engine serves it"};
    chosen.verified = trust.kind == tuning::Trust::Kind::kTrusted;
    if (chosen.verified) MarkTiles(kernel, *chosen.divided, store);
    if (trust.kind != tuning::Trust::Kind::kWrong) {
      chosen.unverified = trust.message;
      return chosen;
    }
    // The pieces of the wrong division are now excluded, so the next attempt chooses another
    // division.
    wrong.push_back(DivisionText(*chosen.divided) + ": " + trust.message);
    if (attempt + 1 == kAttempts) {
      chosen.divided.reset();
      chosen.verified = true;
      chosen.wrong = wrong;
      return chosen;
    }
  }
}

// Layers of one kernel family. They share measurements, so one device measures all of them.
struct LayerUnit {
  std::vector<size_t> layers;
  double work = 0;
};

std::vector<LayerUnit> UnitsOf(const std::vector<Layer>& layers) {
  std::vector<LayerUnit> units;
  std::vector<ConvolutionProblem> families;
  for (size_t at = 0; at < layers.size(); ++at) {
    const ConvolutionProblem family = KernelFamily(layers[at].problem);
    const auto known = std::find(families.begin(), families.end(), family);
    const auto unit = static_cast<size_t>(known - families.begin());
    if (known == families.end()) {
      families.push_back(family);
      units.emplace_back();
    }
    units[unit].layers.push_back(at);
    units[unit].work += MeasuringWork(layers[at].problem);
  }
  return units;
}

// A device and its measurements.
struct DeviceBench {
  DeviceBench(tuning::HeldDevice& held, const Options& options, planning::MeasurementStore* store)
      : held(held),
        // The command has no time budget: it measures everything that was requested.
        kernels(store, std::nullopt, options.lock_folder),
        legacy(*held.device().functions, options, kernels) {}

  Result<MeasuredLayer> Measure(const Layer& layer, const Options& options) {
    const cuda::ContextScope context(*held.device().driver, held.device().context);
    UCUDNN_ASSIGN_OR_RETURN(const cudnnHandle_t handle, held.Handle());
    tuning::KernelToMeasure kernel{held.device(), layer.problem, 0, handle};
    kernel.may_measure = options.tuning.on;
    kernel.catch_up = true;
    Result<MeasuredLayer> chosen = ChooseVerified(kernel, layer, options, legacy, kernels.store());
    if (!chosen.ok()) return Status::Error(layer.name + ": " + chosen.message());
    return chosen;
  }
  // Returns whether the device still works after a failed measurement. If it works, the layer or a
  // lack of memory caused the failure.
  bool Works() const {
    const cuda::Driver& driver = *held.device().driver;
    const cuda::ContextScope context(driver, held.device().context);
    cuda::Stream stream(driver);
    cuda::MemoryPool memory(driver);
    cuda::DeviceBuffer buffer(memory, driver);
    constexpr size_t kBytes = 1024;
    return stream.Create().ok() && buffer.Reserve(kBytes).ok() &&
           driver.cuMemsetD8Async(buffer.address(), 0, kBytes, stream.get()) == CUDA_SUCCESS &&
           stream.Synchronize().ok();
  }

  tuning::HeldDevice& held;
  tuning::MeasuredKernels kernels;
  tuning::LegacyKernels legacy;
};

// A layer that a device failed to measure although the device still works.
struct Failure {
  size_t device = 0;
  Status why;
};

}  // namespace

planning::Tilings TilingsOf(const tuning::KernelToMeasure& kernel, const Options& options,
                            const std::vector<planning::Candidate>& candidates,
                            const planning::PromiseRequest& request,
                            tuning::LegacyKernels& kernels) {
  planning::PromiseRequest any = request;
  any.limit_bytes = planning::kNoLimit;
  const auto fastest = BestUndivided(candidates, any);
  planning::TileConditions conditions{options.tiles, options.policy};
  conditions.need_bytes = fastest ? fastest->workspace_bytes : planning::kNoLimit;
  conditions.user_limit = request.limit_bytes;
  conditions.l2_bytes = tuning::L2Bytes(kernel.device);
  const planning::TileUse use = planning::UseOfTiles(kernel.problem, conditions);
  if (!planning::MayTile(use, candidates, request)) return {};
  return kernels.WithoutSlower(kernel, candidates, request, kernels.GetTilings(kernel, request),
                               ProofFor(options));
}

Result<Measured> MeasureLayers(const std::vector<Layer>& asked, const Options& options,
                               planning::MeasurementStore* store, Progress& progress) {
  BenchDevices devices;
  std::vector<std::string> refused;
  UCUDNN_RETURN_IF_ERROR(devices.Open(options, options.benchmark_devices, refused));
  for (const std::string& why : refused) progress.Warn(why);
  std::vector<Layer> layers = asked;
  for (Layer& layer : layers) {
    // A run looks for measurements with the alignment of a program's legacy calls. Layers from a
    // report keep the alignments that the report gives.
    if (layer.problem.alignment == 1) layer.problem.alignment = cudnn::kLegacyAlignment;
  }
  std::vector<std::unique_ptr<DeviceBench>> benches;
  for (const auto& held : devices.devices()) {
    benches.push_back(std::make_unique<DeviceBench>(*held, options, store));
  }
  progress.UseDevices(benches.size());
  std::vector<LayerUnit> units = UnitsOf(layers);
  if (benches.size() > 1) {
    // The units with most work come first. Otherwise a device might begin a long unit when the
    // other devices are about to finish.
    std::stable_sort(units.begin(), units.end(),
                     [](const LayerUnit& a, const LayerUnit& b) { return a.work > b.work; });
  }
  std::vector<std::optional<MeasuredLayer>> measured(layers.size());
  std::vector<std::optional<Failure>> failed(layers.size());
  const auto measure = [&](size_t device, size_t unit) -> Status {
    for (const size_t at : units[unit].layers) {
      if (measured[at]) continue;  // done by a device that failed later in this unit
      progress.Begin(layers[at]);
      Result<MeasuredLayer> one = benches[device]->Measure(layers[at], options);
      if (one.ok()) {
        measured[at] = std::move(*one);
      } else if (benches.size() == 1 || !benches[device]->Works()) {
        return one.status();
      } else {
        failed[at] = {device, one.status()};
      }
      progress.Done(layers[at]);
    }
    return Status::Ok();
  };
  const auto lost = [&](size_t device, const Status& why) {
    progress.Warn("device " + std::to_string(benches[device]->held.ordinal()) +
                  " fails, others do its work: " + why.message());
  };
  UCUDNN_RETURN_IF_ERROR(tuning::SpreadOverDevices(benches.size(), units.size(), measure, lost));
  for (size_t at = 0; at < layers.size(); ++at) {
    if (measured[at]) continue;
    // Another device may have more free memory. If it fails too, the layer itself is the cause.
    const size_t other = failed[at]->device == 0 ? 1 : 0;
    UCUDNN_ASSIGN_OR_RETURN(measured[at], benches[other]->Measure(layers[at], options));
  }
  Measured result;
  result.platform = devices.first().device().platform;
  result.devices = benches.size();
  for (const auto& bench : benches) result.measured += bench->kernels.measured();
  for (std::optional<MeasuredLayer>& layer : measured) result.layers.push_back(std::move(*layer));
  return result;
}

}  // namespace ucudnn::command
