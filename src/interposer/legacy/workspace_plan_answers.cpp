// Answers queries from a workspace plan.

#include "convolution/engine_name.h"
#include "cudnn/legacy_engines.h"
#include "interposer/legacy/legacy_calls.h"
#include "planning/decision/offers.h"
#include "planning/owned_promise.h"

namespace ucudnn::interposer {

using planning::Candidate;
using planning::Promise;

planning::NamedRequest LegacyCalls::Named(const LegacyKernel& kernel, std::optional<int> algorithm,
                                          size_t limit_bytes) const {
  planning::NamedRequest named{kernel.problem, {}};
  if (algorithm) {
    named.engine = EngineId::Legacy{*algorithm, std::nullopt};
    named.numeric = LegacyNumericClass(kernel.problem.operation, *algorithm);
  }
  named.limit_bytes = limit_bytes;
  named.deterministic = options_.deterministic;
  named.in_budget = kernel.session->budget() != nullptr;
  return named;
}

bool LegacyCalls::PromiseConfirmed(const LegacyKernel& kernel,
                                   const planning::ConfirmedLegacyKernel& confirmed, int algorithm,
                                   Promise& promise) {
  planning::PromiseRequest request = rules_.RequestFor(kernel.problem, promise.limit_bytes);
  // ucudnn's own workspace is only for the workspace plan's configuration. So the algorithm that
  // keeps the promise alone must run without any workspace.
  if (kernel.session->budget() != nullptr) request.limit_bytes = 0;
  const EngineId engine = EngineId::Legacy{algorithm, std::nullopt};
  if (!planning::MakeKeepableAlone(kernel.problem.operation, confirmed.candidates, engine, request,
                                   promise)) {
    return false;
  }
  for (Run& run : promise.alone.runs) planning::ForgetOrder(confirmed.configuration, run.micro);
  if (promise.limit_bytes == kNoLimit) promise.limit_bytes = promise.workspace_bytes;
  const bool brought = promise.owned_bytes > 0;
  promises_.Add({kernel.session->platform(), algorithm, kernel.problem},
                brought ? planning::UndividedAlone(promise) : promise);
  return true;
}

std::optional<LegacyCalls::Performances> LegacyCalls::ConfirmedAnswer(const LegacyKernel& kernel,
                                                                      size_t limit_bytes) {
  const auto confirmed = tuner_.FindConfirmed(kernel).choice;
  if (!confirmed) return std::nullopt;
  std::optional<Promise> promise = planning::PromiseOfWorkspacePlan(
      *confirmed, Named(kernel, std::nullopt, MeasuredLimit(kernel, limit_bytes)));
  if (!promise) return std::nullopt;
  const ConvolutionProblem& problem = kernel.problem;
  if (!PromiseConfirmed(kernel, *confirmed, promise->reported.engine.legacy()->algorithm,
                        *promise)) {
    // The undivided engine is at least as exact as the plan. A caller must not be told of an engine
    // that is more exact than the plan. So the undivided engine is reported only if it has the
    // numeric class of the plan's largest piece.
    const int whole = promise->undivided.engine.legacy()->algorithm;
    const bool same = LegacyNumericClass(problem.operation, whole) == confirmed->largest;
    promise->reported.engine = promise->undivided.engine;
    if (!same || !PromiseConfirmed(kernel, *confirmed, whole, *promise)) return std::nullopt;
  }
  Performances answer = {cudnn::PerformanceOf(promise->reported, problem.math)};
  for (const Candidate& candidate : confirmed->candidates) {
    MicroConfiguration micro = candidate.micro;
    const bool serves = micro.IsWhole(problem.n) && micro.workspace_bytes <= limit_bytes &&
                        (micro.deterministic || !options_.deterministic);
    if (!serves || micro.engine == promise->reported.engine) continue;
    micro.time_ms = planning::kUnknownTime;
    answer.push_back(cudnn::PerformanceOf(micro, problem.math));
  }
  return answer;
}

}  // namespace ucudnn::interposer
