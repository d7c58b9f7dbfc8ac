// How a convolution call runs that a session meets for the first time.
#include <algorithm>

#include "base/byte_size.h"
#include "convolution/partial_sums.h"
#include "cuda/resources.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"
#include "interposer/interposer.h"
#include "planning/library_promise.h"

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

std::string Pinned(const Configuration& plan) {
  return (plan.Pieces() > 1 ? Pieces(plan) : std::string("undivided")) + ", as the plan file says";
}

// Whether the plan must have been compared with the undivided engine of the caller's API.
bool NeedsTrust(const Configuration& plan) { return plan.Pieces() > 1 || UsesGraph(plan); }

}  // namespace

std::optional<Flavour> Interposer::FlavourOf(const cudnn::LegacyCall& call,
                                             const ConvolutionProblem& problem) const {
  const bool aligned = cudnn::IsAligned(call.x) && cudnn::IsAligned(call.w) &&
                       cudnn::IsAligned(call.y) && cudnn::IsAligned(call.workspace) &&
                       (call.bias == nullptr || cudnn::IsAligned(call.bias->z));
  if (call.bias == nullptr) {
    if (!aligned) return Flavour::kMisaligned;
    if (options_.engines == EngineSet::kLegacy) return Flavour::kPlain;
    if (cudnn::ScaleOf(call.alpha, problem.type) != 1) return Flavour::kScaled;
    const double beta = cudnn::ScaleOf(call.beta, problem.type);
    if (beta == 0) return Flavour::kPlain;
    // Of gradients that are summed apart from each other no engine was compared that adds.
    const bool adds =
        problem.operation == Operation::kBackwardFilter && !SumsPartials(problem) && beta == 1;
    return adds ? Flavour::kAdding : Flavour::kScaled;
  }
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
                                               const CallKey& key, bool may_measure,
                                               KernelRecord& record, bool& settled) {
  const ConvolutionProblem& problem = kernel.problem;
  const std::string engine = cudnn::LegacyEngineName({call.algorithm, std::nullopt});
  size_t need = 0;
  const bool known_need =
      cudnn::WorkspaceBytes(functions_, problem.operation, call.handle, call.descriptors,
                            call.algorithm, &need) == CUDNN_STATUS_SUCCESS;
  record.workspace_bytes = known_need ? need : key.workspace_bytes;
  record.plan = {{{{engine, problem.n, kUnknownTime, record.workspace_bytes, false}, 1}}};
  if (!known_need) {
    // Others must not hide the error that the genuine library has for this algorithm, nor a strict
    // limit.
    record.workspace_bytes = 0;
    record.reason = "the algorithm does not serve this kernel: runs as the caller asked";
    return std::nullopt;
  }

  const bool one_algorithm =
      key.flavour == Flavour::kMisaligned || key.flavour == Flavour::kIdentity;
  if (!one_algorithm && kernel.session->network() == nullptr) {
    if (auto pinned = PinnedPromise(kernel, call.algorithm, record.limit_bytes)) {
      record.undivided = pinned->fastest_undivided;
      record.reason = Pinned(pinned->plan);
      return pinned;
    }
  }
  planning::PromiseRequest request = RequestFor(problem, record.limit_bytes);
  request.chosen = cudnn::LegacyNumericClass(problem.operation, call.algorithm);
  const Measurements measured = Measured(kernel, request, may_measure);
  settled = measured.settled;
  std::vector<Candidate> candidates = OwnCandidates(problem, measured);
  if (one_algorithm) {
    std::erase_if(candidates, [&](const Candidate& other) { return other.micro.engine != engine; });
  }
  if (candidates.empty()) {
    const bool may_come = !settled && Tunes(*kernel.session, problem);
    record.reason = may_come ? "not measured yet: runs as the caller asked"
                             : "not measured: runs as the caller asked";
    if (may_come) return std::nullopt;
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
  if (own == nullptr && need <= limit && !options_.deterministic) {
    // Measuring found no time or memory for it: it may be faster than all that was measured.
    record.reason = "the algorithm itself is not measured: runs as the caller asked";
    return std::nullopt;
  }

  request.deterministic |= own == nullptr || own->micro.deterministic;
  record.undivided = planning::FastestUndivided(candidates, request).value_or(MicroConfiguration{});
  std::optional<Promise> promise = planning::MakePromise(candidates, request);
  const bool own_serves =
      need <= limit && own != nullptr && (own->micro.deterministic || !options_.deterministic);
  if (promise && own_serves &&
      promise->plan.TimeMs() >= (1 - planning::kHysteresis) * own->micro.time_ms) {
    record.reason = "nothing within the limit is faster than what the caller asked for";
    return std::nullopt;
  }
  if (!promise && one_algorithm) {
    promise = planning::PiecesOf(engine, candidates, request);
    if (promise && own != nullptr) promise->fastest_undivided = own->micro;
  }
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

template <typename Plan>
bool Interposer::Trusted(const Kernel& kernel, bool may_compare, std::optional<Promise>& promise,
                         Plan plan_anew, std::string& why) {
  using tuning::Trust;
  constexpr int kAttempts = 4;
  for (int attempt = 0; promise && NeedsTrust(promise->plan); ++attempt) {
    const MicroConfiguration& undivided =
        promise->undivided.engine.empty() ? promise->fastest_undivided : promise->undivided;
    // Pieces that nothing can take the place of keep a promise alone.
    if (undivided.engine.empty()) return true;
    const Trust trust =
        Verify(kernel, promise->plan, undivided, may_compare && attempt < kAttempts);
    if (trust.kind == Trust::Kind::kTrusted) return true;
    why = trust.message;
    if (trust.kind == Trust::Kind::kUnknown) return false;
    Fallback(kernel.problem,
             promise->plan.Pieces() > 1 ? "a divided plan is wrong and never used"
                                        : "a graph engine is wrong and never used",
             trust.message);
    if (attempt < kAttempts) {
      promise = plan_anew();
    } else if (promise->undivided.engine.empty()) {
      promise.reset();
    } else {
      return false;
    }
  }
  return true;
}

std::unique_ptr<execution::PlannedConvolution> Interposer::Prepare(const Kernel& kernel,
                                                                   const Promise& promise,
                                                                   KernelRecord& record) {
  using execution::PlannedConvolution;
  const ConvolutionProblem& problem = kernel.problem;
  cudnn::MixedEngines engines(functions_, kernel.handle, GraphEnginesOf(kernel, promise.plan));
  auto plan = PlannedConvolution::Create(engines, problem, promise.plan, promise.undivided);
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

Promise Interposer::Improved(Promise promise, const Kernel& kernel, bool may_measure,
                             bool& settled) {
  const ConvolutionProblem& problem = kernel.problem;
  planning::PromiseRequest request = RequestFor(problem, promise.workspace_bytes);
  request.deterministic |= promise.reported.deterministic;
  if (const auto engine = cudnn::ParseLegacyEngine(promise.reported.engine)) {
    request.chosen = cudnn::LegacyNumericClass(problem.operation, engine->algorithm);
  }
  const Measurements measured = Measured(kernel, request, may_measure);
  settled = measured.settled;
  const std::vector<Candidate> candidates = OwnCandidates(problem, measured);
  if (UsesGraph(promise.plan) &&
      FindUndivided(candidates, promise.plan.runs[0].micro.engine, problem.n) == nullptr) {
    // Found wrong since.
    promise.plan = {{{promise.undivided, 1}}};
  }
  std::optional<Promise> better = planning::MakePromise(candidates, request);
  if (!better) return promise;
  if (promise.plan.Pieces() == 1) {
    // Where it was not measured, what is faster is not known.
    const Candidate* const present =
        FindUndivided(candidates, promise.plan.runs[0].micro.engine, problem.n);
    if (present == nullptr) return promise;
    if (better->plan.TimeMs() >= (1 - planning::kHysteresis) * present->micro.time_ms) {
      promise.plan.runs[0].micro = present->micro;
      promise.fastest_undivided = better->fastest_undivided;
      return promise;
    }
  }
  better->reported = promise.reported;
  better->workspace_bytes = promise.workspace_bytes;
  better->limit_bytes = promise.limit_bytes;
  better->alone = std::move(promise.alone);
  return std::move(*better);
}

long Interposer::NextLook(long calls) const {
  return std::max({options_.tuning.after_calls, 2 * calls, calls + 1});
}

Decision* Interposer::Decide(const cudnn::LegacyCall& call, const Kernel& met, const CallKey& key,
                             Decision* earlier) {
  // Another thread may capture, in a mode that forbids us to build plans.
  const cuda::RelaxedCaptureScope relaxed(*driver_);
  const bool capturing = Capturing(*met.session);
  // Making graph engines ready could break a capture.
  Kernel kernel = met;
  kernel.graph &= !capturing;
  const ConvolutionProblem& problem = kernel.problem;
  const PromiseKey promise_key{kernel.session->platform(), call.algorithm, problem};
  auto decision = std::make_unique<Decision>();
  if (const Network* network = kernel.session->network())
    decision->library.epoch = network->epoch();
  decision->page = &promises_.PageOf(promise_key);
  decision->version = decision->page->version();
  const size_t user_limit = UserLimit(*kernel.session);
  KernelRecord record;
  record.problem = problem;
  record.limit_bytes = std::min<size_t>(user_limit, key.workspace_bytes);
  const long calls = decision->page->calls.load(std::memory_order_relaxed);
  // Whether a strict limit can be kept is known only after measuring.
  const bool may_measure = Tunes(*kernel.session, problem) && !capturing &&
                           (options_.strict_limit || calls >= options_.tuning.after_calls);
  const bool failed = decision->page->failed;
  bool settled = true, trusted = true, promised = false;
  std::string untrusted;

  std::optional<Promise> promise;
  // A piece failed before: what is undivided runs, where there is something.
  const auto stays_whole = [&] { return failed && promise && !promise->undivided.engine.empty(); };
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
    const bool any_engine =
        key.flavour != Flavour::kMisaligned && key.flavour != Flavour::kIdentity;
    NoteScarceWorkspace(promise_key, key.workspace_bytes);
    if (any_engine) promise = promises_.Find(promise_key, key.workspace_bytes);
    const std::optional<Promise> told = promise;
    const auto plan_in_library = [&] {
      return PlanInLibrary(call, kernel, told, may_measure, *decision, settled);
    };
    std::optional<Promise> in_library;
    if (any_engine) in_library = plan_in_library();
    if (in_library) promise = in_library;
    promised = promise.has_value();
    const bool without_graph = promise && UsesGraph(promise->plan) && !kernel.graph;
    if (without_graph) promise->plan = {{{promise->undivided, 1}}};
    if (promise && (promise->provisional || (without_graph && !capturing))) {
      promise = Improved(std::move(*promise), kernel, may_measure, settled);
    }
    const auto plan_unasked = [&] {
      return PlanUnasked(call, kernel, key, may_measure, record, settled);
    };
    if (!promised) promise = plan_unasked();
    if (!promise && !any_engine && record.workspace_bytes > record.limit_bytes) {
      // The caller's algorithm has no chance in what it was told to pass, or none in the user's
      // limit. Other engines may not take pointers on less than 16 bytes, but no identity
      // activation for certain.
      promise = key.flavour == Flavour::kIdentity
                    ? promises_.FindAlone(promise_key, key.workspace_bytes)
                    : promises_.Find(promise_key, key.workspace_bytes);
      promised = promise.has_value();
      if (promise && UsesGraph(promise->plan)) promise->plan = {{{promise->undivided, 1}}};
    }
    // Measurements that others made are compared here too, so not only where this process measures.
    const auto plan_anew = [&]() -> std::optional<Promise> {
      if (promise && promise->pinned) return planning::Whole(*promise);
      // No other engine serves an identity activation.
      if (promised && !any_engine) return promise;
      if (in_library) {
        auto anew = plan_in_library();
        return anew ? anew : planning::Whole(*in_library);
      }
      if (promised) return Improved(*promise, kernel, may_measure, settled);
      return plan_unasked();
    };
    trusted = stays_whole() || Trusted(kernel, !capturing, promise, plan_anew, untrusted);
    const bool inside =
        !in_library || (earlier != nullptr && earlier->library.epoch == decision->library.epoch);
    if (!trusted && inside && earlier != nullptr && earlier->Divides()) {
      // What was compared stays until the better plan is.
      earlier->due_at = NextLook(calls);
      return earlier;
    }
    if (promised) {
      record.limit_bytes = promise->limit_bytes;
      record.undivided = promise->fastest_undivided;
      record.reason = promise->pinned              ? Pinned(promise->plan)
                      : promise->plan.Pieces() > 1 ? Pieces(promise->plan)
                      : UsesGraph(promise->plan)   ? "a faster engine of the graph API"
                      : promise->library_bytes > 0
                          ? "undivided, in the library's workspace"
                          : "undivided, as the library answered when it was asked";
    }
    decision->refused = options_.strict_limit && !promise && record.workspace_bytes > user_limit;
    if (decision->refused) {
      record.reason = "needs " + FormatByteSize(record.workspace_bytes) + ", over the limit of " +
                      FormatByteSize(user_limit) + ": refused";
      Fallback(problem, "refused: it cannot be brought under the strict workspace limit");
    }
  }
  const std::string own = cudnn::LegacyEngineName({call.algorithm, std::nullopt});
  const auto own_serves = [&] {
    return record.workspace_bytes <= record.limit_bytes &&
           (!options_.deterministic || record.plan.Largest().deterministic);
  };
  // In place of pieces that were never compared. What fits was never slower than what would take
  // their place; in less than it needs, or over a strict limit, only they keep what was promised.
  const auto may_run_as_asked = [&] {
    if (own_serves()) return true;
    const bool told = promises_.LastReported(promise_key).has_value();
    return promise->undivided.engine.empty() && record.workspace_bytes <= key.workspace_bytes &&
           !(options_.strict_limit && told);
  };
  const bool as_asked = promise && promise->library_bytes == 0 && promise->plan.Pieces() == 1 &&
                        promise->plan.runs[0].micro.engine == own;
  if (as_asked) {
    record.plan = promise->plan;
    record.workspace_bytes = promise->workspace_bytes;
  } else if (promise && !promised && (failed || !trusted) && may_run_as_asked()) {
    settled = failed;
    record.reason =
        failed ? "as the caller asked, because a piece of a plan failed"
               : "as the caller asked, because the plan was not yet compared with it: " + untrusted;
    decision->refused = options_.strict_limit && record.workspace_bytes > user_limit;
  } else if (promise) {
    decision->plan = Prepare(kernel, *promise, record);
    if (decision->plan != nullptr && decision->plan->has_pieces()) {
      decision->library.bytes = promise->library_bytes;
      record.library_bytes = promise->library_bytes;
    }
    settled &= trusted;
    if ((stays_whole() || !trusted) && decision->plan != nullptr &&
        decision->plan->has_undivided()) {
      decision->barred = true;
      record.plan = {{{promise->undivided, 1}}};
      record.workspace_bytes = promise->undivided.workspace_bytes;
      record.library_bytes = 0;
      record.reason =
          failed ? "undivided, because a piece of a plan failed"
                 : "undivided, because the plan was not yet compared with it: " + untrusted;
    }
  }
  if (options_.check && decision->plan != nullptr && decision->plan->has_pieces()) {
    const auto numeric = CoarsestClass(kernel, promise->plan, promise->undivided);
    if (numeric.ok()) decision->checked = *numeric;
  }
  // While a graph is captured nothing was measured, so nothing final was decided.
  if (decision->plan == nullptr && capturing && !decision->refused) return nullptr;
  // Graph engines are made ready at the first call after it.
  const bool postponed = capturing && ((met.graph && options_.engines != EngineSet::kLegacy) ||
                                       !options_.plan.empty());
  // What the library could not say of the plan file's entry, it may say later.
  const bool unanswered =
      !options_.plan.empty() &&
      pinned_.Find(DeviceOf(*kernel.session).platform, kernel.session->platform(), problem, nullptr)
          .unanswered;
  const bool more_may_come =
      postponed || unanswered || (!settled && (Tunes(*kernel.session, problem) || !trusted));
  if (more_may_come && !stays_whole()) {
    // What a capture kept from being known may be known at the first call after it.
    decision->due_at = capturing ? calls : NextLook(calls);
  }
  bool fresh = false;
  decision->record =
      report_.Record(std::move(record), earlier == nullptr ? nullptr : earlier->record, fresh);
  Decision* const kept = kernel.session->Keep(key, std::move(decision));
  if (fresh) WriteReport();
  return kept;
}

}  // namespace ucudnn::interposer
