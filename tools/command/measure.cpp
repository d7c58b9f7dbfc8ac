#include "command/measure.h"

#include <limits>
#include <span>
#include <utility>

#include "command/bench_device.h"
#include "command/plan_output.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"
#include "planning/workspace_reuse.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::command {
namespace {

// The measurements a run with these options would choose from.
std::vector<MicroConfiguration> Usable(const ConvolutionProblem& problem, const Options& options,
                                       const std::vector<MicroConfiguration>& measured) {
  std::vector<MicroConfiguration> usable;
  for (planning::Candidate& candidate : cudnn::OwnMathCandidates(problem, measured)) {
    if (options.deterministic && !candidate.micro.deterministic) continue;
    usable.push_back(std::move(candidate.micro));
  }
  return usable;
}

MeasuredLayer Choose(const Layer& layer, const std::vector<MicroConfiguration>& usable,
                     size_t limit_bytes) {
  MeasuredLayer chosen{layer, std::nullopt, std::nullopt};
  for (const MicroConfiguration& micro : usable) {
    if (micro.micro_batch != layer.problem.n || micro.workspace_bytes > limit_bytes) continue;
    if (!chosen.undivided || micro.time_ms < chosen.undivided->time_ms) chosen.undivided = micro;
  }
  chosen.divided = planning::OptimizeWorkspaceReuse(usable, layer.problem.n,
                                                    LegalStep(layer.problem), limit_bytes);
  return chosen;
}

// An engine to compare a division with: of those that fit, else of all.
std::optional<MicroConfiguration> Reference(const MeasuredLayer& chosen,
                                            const std::vector<MicroConfiguration>& usable) {
  if (chosen.undivided) return chosen.undivided;
  return Choose(chosen.layer, usable, std::numeric_limits<size_t>::max()).undivided;
}

// Chooses what a run with these options would, and compares its output once.
Result<MeasuredLayer> ChooseVerified(const BenchDevice& bench, const Layer& layer,
                                     const Options& options, size_t limit_bytes,
                                     tuning::MeasuredKernels& kernels) {
  constexpr int kAttempts = 4;
  std::vector<std::string> wrong;
  for (int attempt = 0;; ++attempt) {
    const tuning::Answer measured = kernels.Get(
        bench.device(), {layer.problem, options.policy,
                         planning::RequestFor(layer.problem, limit_bytes, options.deterministic),
                         options.tuning.on});
    if (!measured.status.ok()) return measured.status;
    const std::vector<MicroConfiguration> usable = Usable(layer.problem, options, measured.rows);
    MeasuredLayer chosen = Choose(layer, usable, limit_bytes);
    chosen.wrong = wrong;
    if (!chosen.divided || chosen.divided->Pieces() == 1) return chosen;
    const std::optional<MicroConfiguration> reference = Reference(chosen, usable);
    const tuning::Trust trust =
        reference ? kernels.Verify(bench.device(), layer.problem, *chosen.divided, *reference,
                                   options.tuning.on)
                  : tuning::Trust{tuning::Trust::Kind::kUnknown, "no undivided engine serves it"};
    chosen.verified = trust.kind == tuning::Trust::Kind::kTrusted;
    if (trust.kind != tuning::Trust::Kind::kWrong) {
      chosen.unverified = trust.message;
      return chosen;
    }
    // Its pieces are barred now: the next choice is another.
    wrong.push_back(DivisionText(*chosen.divided) + ": " + trust.message);
    if (attempt + 1 == kAttempts) {
      return MeasuredLayer{layer, chosen.undivided, std::nullopt, true, {}, wrong};
    }
  }
}

}  // namespace

Result<Measured> MeasureLayers(const std::vector<Layer>& layers, const Options& options,
                               planning::MeasurementStore* store,
                               const std::function<void(const Layer&)>& progress) {
  BenchDevice bench;
  UCUDNN_RETURN_IF_ERROR(bench.Open(options));
  // A command measures all it is asked for, however long that takes.
  tuning::MeasuredKernels kernels(store, std::nullopt, options.lock_folder);
  Measured result;
  result.platform = bench.device().platform;
  const size_t limit = options.workspace_limit.value_or(std::numeric_limits<size_t>::max());
  for (Layer layer : layers) {
    // Measured as a program's calls will be, so that a run finds these measurements; a report says
    // how they were.
    if (layer.problem.alignment == 1) layer.problem.alignment = cudnn::kLegacyAlignment;
    progress(layer);
    Result<MeasuredLayer> chosen = ChooseVerified(bench, layer, options, limit, kernels);
    if (!chosen.ok()) return Status::Error(layer.name + ": " + chosen.message());
    result.layers.push_back(std::move(*chosen));
  }
  result.measured = kernels.measured();
  return result;
}

}  // namespace ucudnn::command
