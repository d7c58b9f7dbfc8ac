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
  if (call.bias == nullptr) return aligned ? Flavour::kPlain : Flavour::kMisaligned;
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
  if (mode == CUDNN_ACTIVATION_IDENTITY) return Flavour::kIdentity;
  return aligned ? Flavour::kActivation : Flavour::kMisaligned;
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
  record.plan = {{{{engine, problem.n, kUnknownTime, record.workspace_bytes, false}, 1}}};
  if (!known_need) {
    // Others must not hide the error that the genuine library has for this algorithm.
    record.reason = "the algorithm does not serve this kernel: runs as the caller asked";
    return std::nullopt;
  }

  std::vector<Candidate> candidates = cudnn::OwnMathCandidates(problem, Measured(kernel));
  const bool one_algorithm =
      key.flavour == Flavour::kMisaligned || key.flavour == Flavour::kIdentity;
  if (one_algorithm) {
    std::erase_if(candidates, [&](const Candidate& other) { return other.micro.engine != engine; });
  }
  if (candidates.empty()) {
    record.reason = "not measured: runs as the caller asked";
    if (need > record.limit_bytes) {
      Fallback(problem, "not measured, so it cannot be brought under the workspace limit");
    } else if (options_.deterministic) {
      Fallback(problem, "not measured, so nothing deterministic can take its place");
    }
    return std::nullopt;
  }
  const size_t limit = record.limit_bytes;
  const Candidate* const own = FindUndivided(candidates, engine, problem.n);
  if (own != nullptr) record.plan.runs[0].micro = own->micro;

  planning::PromiseRequest request = RequestFor(problem, limit);
  request.deterministic |= own == nullptr || own->micro.deterministic;
  request.chosen = cudnn::LegacyNumericClass(problem.operation, call.algorithm);
  record.undivided = planning::FastestUndivided(candidates, request).value_or(MicroConfiguration{});
  std::optional<Promise> promise = planning::MakePromise(candidates, request);
  const bool own_serves =
      need <= limit && own != nullptr && (own->micro.deterministic || !options_.deterministic);
  if (promise && own_serves &&
      promise->plan.TimeMs() >= (1 - planning::kHysteresis) * own->micro.time_ms) {
    record.reason = "nothing within the limit is faster than what the caller asked for";
    return std::nullopt;
  }
  if (!promise && one_algorithm) promise = planning::PiecesOf(engine, candidates, request);
  if (!promise) {
    record.reason = "no engine as exact and deterministic fits " + FormatByteSize(limit) +
                    ": runs as the caller asked";
    if (need <= key.workspace_bytes && (need > limit || options_.deterministic)) {
      Fallback(problem, need > limit ? "cannot be brought under the workspace limit"
                                     : "no deterministic engine serves it");
    }
    return std::nullopt;
  }
  record.reason = promise->plan.Pieces() > 1 ? Pieces(promise->plan)
                                             : "a faster engine that fits, in place of " + engine;
  return promise;
}

std::unique_ptr<execution::PlannedConvolution> Interposer::Prepare(
    const ConvolutionProblem& problem, const Promise& promise, KernelRecord& record) {
  using execution::PlannedConvolution;
  auto plan = PlannedConvolution::Create(functions_, problem, promise.plan, promise.undivided);
  if (plan.ok()) {
    record.plan = promise.plan;
    record.workspace_bytes = promise.workspace_bytes;
    return std::move(*plan);
  }
  Fallback(problem, "a plan could not be prepared");
  record.reason = "the plan could not be prepared: " + plan.message();
  // What was promised may be less than the caller's algorithm needs.
  auto undivided = PlannedConvolution::CreateUndivided(functions_, problem, promise.undivided);
  if (!undivided.ok() || !(*undivided)->has_undivided()) return nullptr;
  record.plan = {{{promise.undivided, 1}}};
  record.workspace_bytes = promise.undivided.workspace_bytes;
  return std::move(*undivided);
}

Decision* Interposer::Decide(const cudnn::LegacyCall& call, const Kernel& kernel,
                             const CallKey& key) {
  const ConvolutionProblem& problem = kernel.problem;
  const PromiseKey promise_key{kernel.session->platform(), call.algorithm, problem};
  auto decision = std::make_unique<Decision>();
  decision->page = &promises_.PageOf(promise_key);
  decision->version = decision->page->version();
  KernelRecord record;
  record.problem = problem;
  record.limit_bytes =
      std::min<size_t>(options_.workspace_limit.value_or(key.workspace_bytes), key.workspace_bytes);
  const bool capturing = Capturing(*kernel.session);

  std::optional<Promise> promise;
  if (options_.mode == Mode::kObserve) {
    size_t need = key.workspace_bytes;
    if (cudnn::WorkspaceBytes(functions_, problem.operation, call.handle, call.descriptors,
                              call.algorithm, &need) != CUDNN_STATUS_SUCCESS) {
      need = key.workspace_bytes;
    }
    const std::string engine = cudnn::LegacyEngineName({call.algorithm, std::nullopt});
    record.plan = {{{{engine, problem.n, kUnknownTime, need, false}, 1}}};
    record.workspace_bytes = need;
    record.reason = "observed: runs as the caller asked";
  } else {
    const bool any_engine = key.flavour == Flavour::kPlain || key.flavour == Flavour::kActivation;
    if (any_engine) promise = promises_.Find(promise_key, key.workspace_bytes);
    bool promised = promise.has_value();
    if (!promised) promise = PlanUnasked(call, kernel, key, record);
    if (!promise && key.flavour == Flavour::kMisaligned) {
      // Other engines may not take such pointers, but a reduced promise leaves the caller's no
      // chance.
      promise = promises_.Find(promise_key, key.workspace_bytes);
      promised = promise.has_value();
    }
    if (promised) {
      record.limit_bytes = promise->limit_bytes;
      record.undivided = promise->fastest_undivided;
      record.reason = promise->plan.Pieces() > 1
                          ? Pieces(promise->plan)
                          : "undivided, as the library answered when it was asked";
    }
  }
  const std::string own = cudnn::LegacyEngineName({call.algorithm, std::nullopt});
  const bool as_asked = promise && promise->plan.Pieces() == 1 && promise->reported.engine == own;
  if (as_asked) {
    record.plan = promise->plan;
    record.workspace_bytes = promise->workspace_bytes;
  } else if (promise) {
    decision->plan = Prepare(problem, *promise, record);
  }
  // While a graph is captured nothing was measured, so nothing final was decided.
  if (decision->plan == nullptr && capturing) return nullptr;
  bool fresh = false;
  decision->record = report_.Record(std::move(record), fresh);
  Decision* const kept = kernel.session->Keep(key, std::move(decision));
  if (fresh) WriteReport();
  return kept;
}

}  // namespace ucudnn::interposer
