// What callers of cudnnGet/FindConvolution* are told: promises, and genuine answers where there is
// nothing to promise.
#include <algorithm>
#include <limits>

#include "base/byte_size.h"
#include "base/log.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"
#include "interposer/interposer.h"

namespace ucudnn::interposer {
namespace {

using cudnn::AlgorithmPerformance;
using planning::Candidate;
using planning::Promise;

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

// One line of an answer, and the promise behind it.
struct Offer {
  AlgorithmPerformance performance;
  Promise promise;
};

AlgorithmPerformance PerformanceOf(const MicroConfiguration& micro, MathType math) {
  AlgorithmPerformance performance;
  performance.algorithm = cudnn::ParseLegacyEngine(micro.engine)->algorithm;
  performance.time_ms = static_cast<float>(micro.time_ms);
  performance.workspace_bytes = micro.workspace_bytes;
  performance.determinism = micro.deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
  performance.math = static_cast<cudnnMathType_t>(math);
  return performance;
}

bool SameEngine(const AlgorithmPerformance& a, const AlgorithmPerformance& b) {
  return a.algorithm == b.algorithm && a.math == b.math;
}

// The undivided measurement of what the heuristic chose; none when there is none.
std::optional<AlgorithmPerformance> MeasuredAs(const AlgorithmPerformance& choice,
                                               const ConvolutionProblem& problem,
                                               const std::vector<MicroConfiguration>& measured) {
  for (const cudnn::MathGroup& group : cudnn::GroupByMath(problem, measured)) {
    for (const Candidate& candidate : group.candidates) {
      if (candidate.micro.micro_batch != problem.n) continue;
      const AlgorithmPerformance performance = PerformanceOf(candidate.micro, group.math);
      if (SameEngine(performance, choice)) return performance;
    }
  }
  return std::nullopt;
}

// Every undivided engine of the group within the request, and the promises that beat them: the
// fastest, and the fastest deterministic one for callers who pick by determinism.
void CollectOffers(const cudnn::MathGroup& group, const planning::PromiseRequest& request,
                   std::vector<Offer>& offers) {
  const auto fastest = planning::FastestUndivided(group.candidates, request);
  for (const Candidate& candidate : group.candidates) {
    const MicroConfiguration& micro = candidate.micro;
    if (micro.micro_batch != request.n || micro.workspace_bytes > request.limit_bytes) continue;
    if (request.deterministic && !micro.deterministic) continue;
    offers.push_back({PerformanceOf(micro, group.math),
                      {micro,
                       micro.workspace_bytes,
                       {{{micro, 1}}},
                       micro,
                       fastest.value_or(micro),
                       request.limit_bytes}});
  }
  planning::PromiseRequest stricter = request;
  for (const bool deterministic : {false, true}) {
    stricter.deterministic |= deterministic;
    std::optional<Promise> promise = planning::MakePromise(group.candidates, stricter);
    if (!promise || promise->plan.Pieces() == 1) continue;
    offers.push_back({PerformanceOf(promise->reported, group.math), std::move(*promise)});
  }
}

}  // namespace

std::optional<Interposer::Kernel> Interposer::Meet(Operation operation, cudnnHandle_t handle,
                                                   const cudnn::Descriptors& descriptors) {
  if (options_.mode != Mode::kOn) return std::nullopt;
  Kernel kernel;
  kernel.session = SessionOf(handle);
  if (kernel.session == nullptr) return std::nullopt;
  if (const char* why = cudnn::ReadProblem(functions_, operation, descriptors, kernel.problem)) {
    if (LogEnabled(LogLevel::kDebug)) Log(LogLevel::kDebug, std::string("left alone: ") + why);
    return std::nullopt;
  }
  return kernel;
}

std::vector<MicroConfiguration> Interposer::Measured(const Kernel& kernel) {
  const bool may_measure = options_.tune == Tune::kFirst && !Capturing(*kernel.session);
  Result<std::vector<MicroConfiguration>> measured =
      kernels_.Get(DeviceOf(*kernel.session), kernel.problem, options_.policy, may_measure);
  if (measured.ok()) return std::move(*measured);
  if (may_measure) Fallback(kernel.problem, "cannot be measured: " + measured.message());
  return {};
}

planning::PromiseRequest Interposer::RequestFor(const ConvolutionProblem& problem,
                                                size_t limit_bytes) const {
  planning::PromiseRequest request;
  request.n = problem.n;
  request.step = LegalStep(problem);
  request.may_divide = MayDivide(problem);
  request.limit_bytes = limit_bytes;
  request.deterministic = options_.deterministic;
  return request;
}

Interposer::Answer Interposer::AnswerWithin(const Kernel& kernel,
                                            const std::vector<MicroConfiguration>& measured,
                                            size_t limit_bytes) {
  std::vector<Offer> offers;
  for (const cudnn::MathGroup& group : cudnn::GroupByMath(kernel.problem, measured)) {
    CollectOffers(group, RequestFor(kernel.problem, limit_bytes), offers);
  }
  std::stable_sort(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) {
    return a.performance.time_ms < b.performance.time_ms;
  });
  Answer answer;
  for (Offer& offer : offers) {
    const bool listed = std::any_of(answer.begin(), answer.end(), [&](const auto& other) {
      return SameEngine(other, offer.performance);
    });
    if (listed) continue;
    answer.push_back(offer.performance);
    ConvolutionProblem problem = kernel.problem;
    problem.math = static_cast<MathType>(offer.performance.math);
    promises_.Add({kernel.session->platform(), offer.performance.algorithm, problem},
                  std::move(offer.promise));
  }
  return answer;
}

std::optional<Interposer::Answer> Interposer::AnswerUnmeasured(
    const Kernel& kernel, cudnnHandle_t handle, const cudnn::Descriptors& descriptors,
    size_t limit_bytes) {
  const size_t ours = options_.workspace_limit.value_or(kNoLimit);
  Answer ranking;
  if ((ours == kNoLimit && !options_.deterministic) ||
      cudnn::RankAlgorithms(functions_, kernel.problem.operation, handle, descriptors, ranking) !=
          CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  std::erase_if(ranking, [&](const AlgorithmPerformance& ranked) {
    return ranked.status != CUDNN_STATUS_SUCCESS || ranked.workspace_bytes > limit_bytes ||
           (options_.deterministic && ranked.determinism != CUDNN_DETERMINISTIC);
  });
  if (!ranking.empty()) return ranking;
  if (limit_bytes == ours || options_.deterministic) {
    Fallback(kernel.problem,
             "not measured, and no algorithm is known that keeps what was asked for");
  }
  return std::nullopt;
}

std::optional<std::vector<AlgorithmPerformance>> Interposer::FindAlgorithms(
    Operation operation, cudnnHandle_t handle, const cudnn::Descriptors& descriptors,
    std::optional<size_t> caller_bytes) {
  const std::optional<Kernel> kernel = Meet(operation, handle, descriptors);
  if (!kernel) return std::nullopt;
  const std::vector<MicroConfiguration> measured = Measured(*kernel);
  const size_t ours = options_.workspace_limit.value_or(kNoLimit);
  size_t limit = std::min(caller_bytes.value_or(kNoLimit), ours);
  if (measured.empty()) return AnswerUnmeasured(*kernel, handle, descriptors, limit);
  // What memory kept us from measuring may be the fastest; without a limit of the user's the
  // genuine library may still find it.
  const bool all = kernels_.HasAllEngines(DeviceOf(*kernel->session), kernel->problem);
  if (ours == kNoLimit && !all) return std::nullopt;
  if (limit == kNoLimit) {
    // The genuine library's own choice: the fastest whatever it needs.
    std::optional<MicroConfiguration> fastest;
    for (const cudnn::MathGroup& group : cudnn::GroupByMath(kernel->problem, measured)) {
      const auto of_group =
          planning::FastestUndivided(group.candidates, RequestFor(kernel->problem, kNoLimit));
      if (of_group && (!fastest || of_group->time_ms < fastest->time_ms)) fastest = of_group;
    }
    limit = fastest ? fastest->workspace_bytes : 0;
  }
  Answer answer = AnswerWithin(*kernel, measured, limit);
  if (!answer.empty()) return answer;
  // Where the caller's own workspace is too small, failing is the genuine library's answer.
  if (limit == ours) Fallback(kernel->problem, "no undivided engine fits the workspace limit");
  return std::nullopt;
}

std::optional<std::vector<AlgorithmPerformance>> Interposer::GetAlgorithms(
    Operation operation, cudnnHandle_t handle, const cudnn::Descriptors& descriptors) {
  const std::optional<Kernel> kernel = Meet(operation, handle, descriptors);
  if (!kernel) return std::nullopt;
  if (options_.workspace_limit) {
    const std::vector<MicroConfiguration> measured = Measured(*kernel);
    if (measured.empty()) {
      return AnswerUnmeasured(*kernel, handle, descriptors, *options_.workspace_limit);
    }
    Answer answer = AnswerWithin(*kernel, measured, *options_.workspace_limit);
    if (!answer.empty()) return answer;
    Fallback(kernel->problem, "no undivided engine fits the workspace limit");
    return std::nullopt;
  }
  // Without a limit of the user's: the heuristic's own choice sets it, and stays the answer unless
  // something measured is faster in the same workspace.
  Answer ranking;
  if (cudnn::RankAlgorithms(functions_, operation, handle, descriptors, ranking) !=
          CUDNN_STATUS_SUCCESS ||
      ranking.empty() || ranking[0].status != CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  const std::vector<MicroConfiguration> measured = Measured(*kernel);
  if (measured.empty()) return AnswerUnmeasured(*kernel, handle, descriptors, kNoLimit);
  const std::optional<AlgorithmPerformance> choice =
      MeasuredAs(ranking[0], kernel->problem, measured);
  if (!choice) return std::nullopt;
  Answer answer = AnswerWithin(*kernel, measured, choice->workspace_bytes);
  const auto listed = [&](const AlgorithmPerformance& ranked) {
    return std::find_if(answer.begin(), answer.end(),
                        [&](const auto& other) { return SameEngine(other, ranked); });
  };
  const auto chosen = listed(*choice);
  if (chosen == answer.end()) return std::nullopt;
  if (answer[0].time_ms >= (1 - planning::kHysteresis) * chosen->time_ms) {
    std::rotate(answer.begin(), chosen, chosen + 1);
  }
  for (const AlgorithmPerformance& ranked : ranking) {
    if (listed(ranked) == answer.end()) answer.push_back(ranked);
  }
  return answer;
}

cudnnStatus_t Interposer::WorkspaceSize(Operation operation, cudnnHandle_t handle,
                                        const cudnn::Descriptors& descriptors, int algorithm,
                                        size_t* bytes) {
  const cudnnStatus_t status =
      cudnn::WorkspaceBytes(functions_, operation, handle, descriptors, algorithm, bytes);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const std::optional<Kernel> kernel = Meet(operation, handle, descriptors);
  if (!kernel) return status;
  const PromiseKey key{kernel->session->platform(), algorithm, kernel->problem};
  if (const std::optional<size_t> reported = promises_.LastReported(key)) {
    *bytes = *reported;
    return status;
  }
  const size_t limit = options_.workspace_limit.value_or(kNoLimit);
  if (*bytes <= limit) return status;

  // The caller chose the algorithm without asking: engines as exact and as deterministic may serve
  // it.
  const std::vector<Candidate> candidates =
      cudnn::OwnMathCandidates(kernel->problem, Measured(*kernel));
  planning::PromiseRequest request = RequestFor(kernel->problem, limit);
  request.chosen = cudnn::LegacyNumericClass(operation, algorithm);
  const std::string engine = cudnn::LegacyEngineName({algorithm, std::nullopt});
  request.deterministic |=
      std::none_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
        return candidate.micro.engine == engine && !candidate.micro.deterministic;
      });
  std::optional<Promise> promise = planning::MakePromise(candidates, request);
  if (promise && operation == Operation::kForward &&
      algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) {
    // cuDNN serves a bias with identity activation by this algorithm only, and nobody says at this
    // point whether such a call will follow: it must be able to keep the promise alone.
    const std::optional<Promise> alone = planning::PiecesOf(engine, candidates, request);
    if (alone) {
      promise->workspace_bytes = std::max(promise->workspace_bytes, alone->workspace_bytes);
    } else {
      promise.reset();
    }
  }
  if (!promise) {
    Fallback(kernel->problem, "cannot be brought under the workspace limit");
    return status;
  }
  *bytes = promise->workspace_bytes;
  promises_.Add(key, std::move(*promise));
  return status;
}

}  // namespace ucudnn::interposer
