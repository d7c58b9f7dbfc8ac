// How a convolution call runs that a session meets for the first time.
#include <algorithm>

#include "base/byte_size.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"
#include "interposer/interposer.h"
#include "planning/workspace_reuse.h"

namespace ucudnn::interposer {
namespace {

using planning::Candidate;
using planning::Promise;

// The fastest undivided candidate within `limit_bytes`; an empty engine when there is none.
MicroConfiguration FastestUndivided(const std::vector<Candidate>& candidates, int n,
                                    size_t limit_bytes) {
  const MicroConfiguration* best = nullptr;
  for (const Candidate& candidate : candidates) {
    const MicroConfiguration& micro = candidate.micro;
    if (micro.micro_batch != n || micro.workspace_bytes > limit_bytes) continue;
    if (best == nullptr || micro.time_ms < best->time_ms) best = &micro;
  }
  return best != nullptr ? *best : MicroConfiguration{};
}

const Candidate* FindUndivided(const std::vector<Candidate>& candidates, const std::string& engine,
                               int n) {
  const auto found =
      std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
        return candidate.micro.engine == engine && candidate.micro.micro_batch == n;
      });
  return found != candidates.end() ? &*found : nullptr;
}

std::string Pieces(const Configuration& plan) {
  return "divided into " + std::to_string(plan.Pieces()) + " micro-batches";
}

}  // namespace

std::optional<Flavour> Interposer::FlavourOf(const cudnn::LegacyCall& call) const {
  const bool aligned = cudnn::IsAligned(call.x) && cudnn::IsAligned(call.w) &&
                       cudnn::IsAligned(call.y) && cudnn::IsAligned(call.workspace) &&
                       (call.bias == nullptr || cudnn::IsAligned(call.bias->z));
  const Flavour plain = aligned ? Flavour::kPlain : Flavour::kOneAlgorithm;
  if (call.bias == nullptr) return plain;
  // Pieces of z are described by pieces of y.
  if (!cudnn::SameTensor(functions_, call.bias->z_descriptor, call.descriptors.y)) {
    return std::nullopt;
  }
  cudnnActivationMode_t mode;
  cudnnNanPropagation_t nan;
  double coefficient = 0;
  if (functions_.cudnnGetActivationDescriptor(call.bias->activation, &mode, &nan, &coefficient) !=
      CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  if (mode == CUDNN_ACTIVATION_IDENTITY || plain == Flavour::kOneAlgorithm) {
    return Flavour::kOneAlgorithm;
  }
  return Flavour::kActivation;
}

std::optional<Promise> Interposer::PlanUnasked(const cudnn::LegacyCall& call, const Kernel& kernel,
                                               const CallKey& key, KernelRecord& record) {
  const ConvolutionProblem& problem = kernel.problem;
  const std::string engine = cudnn::LegacyEngineName({call.algorithm, std::nullopt});
  size_t need = 0;
  const bool known_need =
      cudnn::WorkspaceBytes(functions_, problem.operation, call.handle, call.descriptors,
                            call.algorithm, &need) == CUDNN_STATUS_SUCCESS;
  record.workspace_bytes = known_need ? need : key.workspace_bytes;
  record.plan = {{{{engine, problem.n, 0, record.workspace_bytes, false}, 1}}};
  if (!known_need) {
    // Others must not hide the error that the genuine library has for this algorithm.
    record.reason = "the algorithm does not serve this kernel: runs as the caller asked";
    return std::nullopt;
  }

  std::vector<Candidate> candidates = cudnn::OwnMathCandidates(problem, Measured(kernel));
  if (key.flavour == Flavour::kOneAlgorithm) {
    std::erase_if(candidates, [&](const Candidate& other) { return other.micro.engine != engine; });
  }
  if (candidates.empty()) {
    record.reason = "not measured: runs as the caller asked";
    return std::nullopt;
  }
  const size_t limit = std::min<size_t>(record.limit_bytes, key.workspace_bytes);
  record.undivided = FastestUndivided(candidates, problem.n, limit);
  const Candidate* const own = FindUndivided(candidates, engine, problem.n);
  if (own != nullptr) record.plan.runs[0].micro = own->micro;

  planning::PromiseRequest request = RequestFor(problem, limit);
  request.deterministic |= own == nullptr || own->micro.deterministic;
  request.chosen = cudnn::LegacyNumericClass(problem.operation, call.algorithm);
  std::optional<Promise> promise = planning::MakePromise(candidates, request);
  const bool own_serves =
      need <= limit && own != nullptr && (own->micro.deterministic || !options_.deterministic);
  if (promise && own_serves) {
    const bool faster = promise->plan.TimeMs() < (1 - planning::kHysteresis) * own->micro.time_ms;
    if (!faster) {
      record.reason = "nothing within the limit is faster than what the caller asked for";
      return std::nullopt;
    }
  }
  if (!promise && key.flavour == Flavour::kOneAlgorithm && problem.n > 1 && request.may_divide) {
    // When the one algorithm does not fit undivided there is nothing to fall back to: pieces, or
    // the genuine error.
    std::vector<MicroConfiguration> usable;
    for (const Candidate& candidate : candidates) usable.push_back(candidate.micro);
    if (std::optional<Configuration> plan = planning::OptimizeWorkspaceReuse(
            usable, request.n, request.step, request.limit_bytes)) {
      promise.emplace();
      promise->workspace_bytes = plan->WorkspaceBytes();
      promise->plan = std::move(*plan);
    }
  }
  if (!promise) {
    record.reason = "no engine as exact and deterministic fits " + FormatByteSize(limit) +
                    ": runs as the caller asked";
    if (need <= key.workspace_bytes && need > limit) {
      Fallback(problem, "cannot be brought under the workspace limit of " + FormatByteSize(limit));
    }
    return std::nullopt;
  }
  record.reason = promise->plan.Pieces() > 1 ? Pieces(promise->plan)
                                             : "a faster engine that fits, in place of " + engine;
  return promise;
}

Decision* Interposer::Decide(const cudnn::LegacyCall& call, const Kernel& kernel,
                             const CallKey& key) {
  const ConvolutionProblem& problem = kernel.problem;
  auto decision = std::make_unique<Decision>();
  decision->epoch = promises_.epoch();
  KernelRecord record;
  record.problem = problem;
  record.limit_bytes = options_.workspace_limit.value_or(key.workspace_bytes);

  std::optional<planning::Promise> promise;
  if (options_.mode == Mode::kObserve) {
    record.plan = {{{{cudnn::LegacyEngineName({call.algorithm, std::nullopt}), problem.n, 0,
                      key.workspace_bytes, false},
                     1}}};
    record.workspace_bytes = key.workspace_bytes;
    record.reason = "observed: runs as the caller asked";
  } else {
    if (key.flavour != Flavour::kOneAlgorithm) {
      promise = promises_.Find({kernel.session->platform(), call.algorithm, problem},
                               key.workspace_bytes);
    }
    if (promise) {
      record.undivided = promise->fastest_undivided;
      record.reason = promise->plan.Pieces() > 1 ? Pieces(promise->plan) : "as promised";
    } else {
      promise = PlanUnasked(call, kernel, key, record);
    }
  }
  if (promise) {
    auto plan = execution::PlannedConvolution::Create(functions_, problem, promise->plan,
                                                      promise->undivided);
    if (plan.ok()) {
      decision->plan = std::move(*plan);
      record.plan = promise->plan;
      record.workspace_bytes = promise->workspace_bytes;
    } else {
      record.reason = "runs as the caller asked: " + plan.message();
      Fallback(problem, "a plan could not be prepared: " + plan.message());
    }
  }
  // While a graph is captured nothing was measured, so nothing final was decided.
  const bool final = decision->plan != nullptr || !Capturing(*kernel.session);
  if (!final) return nullptr;
  decision->record =
      report_.Record(problem, record.limit_bytes, record.workspace_bytes, std::move(record.plan),
                     std::move(record.undivided), std::move(record.reason));
  Decision* const kept = kernel.session->Keep(key, std::move(decision));
  WriteReport();
  return kept;
}

}  // namespace ucudnn::interposer
