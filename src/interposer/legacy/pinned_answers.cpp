// Answers callers from a plan file.
#include <utility>

#include "cudnn/legacy_engines.h"
#include "interposer/core/measuring.h"
#include "interposer/legacy/legacy_calls.h"
#include "planning/decision/offers.h"
#include "planning/library_promise.h"

namespace ucudnn::interposer {

using planning::Candidate;
using planning::Promise;

planning::NamedRequest LegacyCalls::Named(const LegacyKernel& kernel, std::optional<int> algorithm,
                                          size_t limit_bytes) const {
  planning::NamedRequest named{kernel.problem, {}};
  if (algorithm) {
    named.engine = EngineId::Legacy{*algorithm, std::nullopt};
    named.numeric = cudnn::LegacyNumericClass(kernel.problem.operation, *algorithm);
  }
  named.limit_bytes = limit_bytes;
  named.deterministic = process_.options.deterministic;
  named.in_budget = kernel.session->network() != nullptr;
  return named;
}

bool LegacyCalls::PromisePinned(const LegacyKernel& kernel, const planning::PinnedChoice& pinned,
                                int algorithm, Promise& promise) {
  planning::PromiseRequest request = RequestFor(process_, kernel.problem, promise.limit_bytes);
  // ucudnn's own workspace serves whole plans only: the algorithm alone must run without any.
  if (kernel.session->network() != nullptr) request.limit_bytes = 0;
  const EngineId engine = EngineId::Legacy{algorithm, std::nullopt};
  if (!planning::MakeKeepableAlone(kernel.problem.operation, pinned.candidates, engine, request,
                                   promise)) {
    return false;
  }
  for (Run& run : promise.alone.runs) planning::ForgetOrder(pinned.plan, run.micro);
  if (promise.limit_bytes == kNoLimit) promise.limit_bytes = promise.workspace_bytes;
  const bool brought = promise.library_bytes > 0;
  process_.promises.Add({kernel.session->platform(), algorithm, kernel.problem},
                        brought ? planning::Whole(promise) : promise);
  return true;
}

std::optional<LegacyCalls::Answer> LegacyCalls::PinnedAnswer(const LegacyKernel& kernel,
                                                             size_t limit_bytes) {
  const auto pinned = FindPinned(process_, kernel).choice;
  if (!pinned) return std::nullopt;
  std::optional<Promise> promise = planning::PromiseOfFile(
      *pinned, Named(kernel, std::nullopt, MeasuredLimit(kernel, limit_bytes)));
  if (!promise) return std::nullopt;
  const ConvolutionProblem& problem = kernel.problem;
  if (!PromisePinned(kernel, *pinned, promise->reported.engine.legacy()->algorithm, *promise)) {
    // The undivided engine is at least as exact as the plan. It is reported in the plan's place
    // only if it is no more exact, either.
    const int whole = promise->undivided.engine.legacy()->algorithm;
    const bool same = cudnn::LegacyNumericClass(problem.operation, whole) == pinned->lead;
    promise->reported.engine = promise->undivided.engine;
    if (!same || !PromisePinned(kernel, *pinned, whole, *promise)) return std::nullopt;
  }
  Answer answer = {cudnn::PerformanceOf(promise->reported, problem.math)};
  for (const Candidate& candidate : pinned->candidates) {
    MicroConfiguration micro = candidate.micro;
    const bool serves = micro.micro_batch == problem.n && micro.workspace_bytes <= limit_bytes &&
                        (micro.deterministic || !process_.options.deterministic);
    if (!serves || micro.engine == promise->reported.engine) continue;
    micro.time_ms = planning::kUnknownTime;
    answer.push_back(cudnn::PerformanceOf(micro, problem.math));
  }
  return answer;
}

}  // namespace ucudnn::interposer
