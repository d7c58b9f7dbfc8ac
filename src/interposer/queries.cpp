// What callers of cudnnGet/FindConvolution* are told: promises, and genuine answers where there is
// nothing to promise.
#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/byte_size.h"
#include "base/log.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"
#include "interposer/interposer.h"
#include "planning/library_promise.h"

namespace ucudnn::interposer {
namespace {

using cudnn::AlgorithmPerformance;
using planning::Candidate;
using planning::Promise;

// One line of an answer, and the promise behind it.
struct Offer {
  AlgorithmPerformance performance;
  Promise promise;
};

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
void CollectOffers(Operation operation, const cudnn::MathGroup& group,
                   const planning::PromiseRequest& request, std::vector<Offer>& offers) {
  const auto fastest = planning::FastestUndivided(group.candidates, request);
  for (const Candidate& candidate : group.candidates) {
    const MicroConfiguration& micro = candidate.micro;
    if (micro.micro_batch != request.n || !candidate.native) continue;
    if (micro.workspace_bytes > request.limit_bytes) continue;
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
    if (!promise || (promise->plan.Pieces() == 1 && !UsesGraph(promise->plan))) continue;
    const int algorithm = cudnn::ParseLegacyEngine(promise->reported.engine)->algorithm;
    if (!MakeKeepableAlone(operation, algorithm, group.candidates, stricter, *promise)) continue;
    offers.push_back({PerformanceOf(promise->reported, group.math), std::move(*promise)});
  }
}

// Every algorithm that an engine without workspace can keep, in the time of the best plan that the
// library's own workspace allows; among equals the one whose pieces are the largest. Until it is
// known what the kernel may use of it, the promise is that engine.
void CollectLibraryOffers(Operation operation, const cudnn::MathGroup& group,
                          const planning::PromiseRequest& request, std::vector<Offer>& offers) {
  std::map<std::pair<planning::NumericClass, bool>, std::optional<Promise>> plans;
  std::vector<Offer> others;
  for (const Candidate& candidate : group.candidates) {
    const MicroConfiguration& micro = candidate.micro;
    if (micro.micro_batch != request.n || !candidate.native) continue;
    if (request.deterministic && !micro.deterministic) continue;
    planning::PromiseRequest as_exact = request;
    as_exact.chosen = candidate.numeric;
    as_exact.deterministic = micro.deterministic;
    const auto [plan, fresh] = plans.try_emplace(std::pair(candidate.numeric, micro.deterministic));
    if (fresh) plan->second = planning::MakeLibraryPromise(group.candidates, as_exact);
    if (!plan->second) continue;
    Promise promise = *plan->second;
    const bool leads = promise.plan.Largest().engine == micro.engine;
    promise.reported = {micro.engine, request.n, promise.plan.TimeMs(), 0, micro.deterministic};
    promise = planning::Whole(std::move(promise));
    as_exact.limit_bytes = 0;
    const int algorithm = cudnn::ParseLegacyEngine(micro.engine)->algorithm;
    if (!MakeKeepableAlone(operation, algorithm, group.candidates, as_exact, promise)) continue;
    (leads ? offers : others).push_back({PerformanceOf(promise.reported, group.math), promise});
  }
  std::move(others.begin(), others.end(), std::back_inserter(offers));
}

}  // namespace

AlgorithmPerformance PerformanceOf(const MicroConfiguration& micro, MathType math) {
  AlgorithmPerformance performance;
  performance.algorithm = cudnn::ParseLegacyEngine(micro.engine)->algorithm;
  performance.time_ms = static_cast<float>(micro.time_ms);
  performance.workspace_bytes = micro.workspace_bytes;
  performance.determinism = micro.deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
  performance.math = static_cast<cudnnMathType_t>(math);
  return performance;
}

bool MakeKeepableAlone(Operation operation, int algorithm, const std::vector<Candidate>& candidates,
                       const planning::PromiseRequest& request, Promise& promise) {
  if (operation != Operation::kForward ||
      algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) {
    return true;
  }
  const std::string engine = cudnn::LegacyEngineName({algorithm, std::nullopt});
  planning::PromiseRequest within = request;
  within.limit_bytes = promise.workspace_bytes;
  std::optional<Promise> alone = planning::PiecesOf(engine, candidates, within);
  if (!alone) alone = planning::PiecesOf(engine, candidates, request);
  if (!alone) return false;
  promise.workspace_bytes = std::max(promise.workspace_bytes, alone->workspace_bytes);
  promise.reported.workspace_bytes = promise.workspace_bytes;
  promise.alone = std::move(alone->plan);
  return true;
}

std::optional<Interposer::Kernel> Interposer::Meet(Operation operation, cudnnHandle_t handle,
                                                   const cudnn::Descriptors& descriptors) {
  if (options_.mode != Mode::kOn) return std::nullopt;
  Kernel kernel;
  kernel.session = SessionOf(handle);
  kernel.handle = handle;
  if (kernel.session == nullptr) return std::nullopt;
  if (const char* why = cudnn::ReadProblem(functions_, operation, descriptors, kernel.problem)) {
    if (LogEnabled(LogLevel::kDebug)) Log(LogLevel::kDebug, std::string("left alone: ") + why);
    return std::nullopt;
  }
  if (promises_.full() && !promises_.Knows(kernel.session->platform(), kernel.problem)) {
    TooManyKernels();
    return std::nullopt;
  }
  return kernel;
}

bool Interposer::Compares(const Kernel& kernel, const Measurements& measured) {
  return !measured.rows.empty() &&
         (measured.whole_tried || !Tunes(*kernel.session, kernel.problem));
}

bool Interposer::MeasuresBeforePromising(const Session& session, const ConvolutionProblem& problem,
                                         bool legacy) {
  return options_.tuning.before_promising && Tunes(session, problem, legacy) && !Capturing(session);
}

planning::PromiseRequest Interposer::RequestFor(const ConvolutionProblem& problem,
                                                size_t limit_bytes) const {
  return planning::RequestFor(problem, limit_bytes, options_.deterministic);
}

Interposer::Answer Interposer::AnswerWithin(const Kernel& kernel, const Measurements& measured,
                                            size_t limit_bytes) {
  std::vector<Offer> offers;
  const planning::PromiseRequest request =
      RequestFor(kernel.problem, MeasuredLimit(kernel, limit_bytes));
  const auto collect = kernel.session->network() == nullptr ? CollectOffers : CollectLibraryOffers;
  for (const cudnn::MathGroup& group : Groups(kernel.problem, measured)) {
    collect(kernel.problem.operation, group, request, offers);
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
    offer.promise.provisional = !measured.settled;
    promises_.Add({kernel.session->platform(), offer.performance.algorithm, problem},
                  std::move(offer.promise));
  }
  if (!answer.empty()) NoteAsked(kernel, answer[0].algorithm, answer[0].math);
  return answer;
}

void Interposer::NoteAsked(const Kernel& kernel, int algorithm, cudnnMathType_t math) {
  Network* const network = kernel.session->network();
  if (network == nullptr || !network->learning()) return;
  ConvolutionProblem problem = kernel.problem;
  problem.math = static_cast<MathType>(math);
  network->Ask({problem, algorithm});
}

std::optional<Interposer::Answer> Interposer::NothingFits(const ConvolutionProblem& problem,
                                                          const char* cause) {
  Fallback(problem, cause);
  if (options_.strict_limit) return Answer{};
  return std::nullopt;
}

std::optional<Interposer::Answer> Interposer::AnswerUnmeasured(
    const Kernel& kernel, cudnnHandle_t handle, const cudnn::Descriptors& descriptors,
    size_t limit_bytes) {
  const size_t ours = UserLimit(*kernel.session);
  Answer ranking;
  if ((ours == kNoLimit && !options_.deterministic) ||
      cudnn::RankAlgorithms(functions_, kernel.problem.operation, handle, descriptors, ranking) !=
          CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  std::erase_if(ranking, [&](const AlgorithmPerformance& ranked) {
    return ranked.status != CUDNN_STATUS_SUCCESS ||
           (options_.deterministic && ranked.determinism != CUDNN_DETERMINISTIC);
  });
  const size_t wanted = ranking.empty() ? 0 : ranking[0].workspace_bytes;
  std::erase_if(ranking, [&](const AlgorithmPerformance& ranked) {
    return ranked.workspace_bytes > limit_bytes;
  });
  if (ranking.empty()) {
    if (limit_bytes != ours && !options_.deterministic) return std::nullopt;
    return NothingFits(kernel.problem,
                       "not measured, and no algorithm is known that keeps what was asked for");
  }
  AlgorithmPerformance& best = ranking[0];
  NoteAsked(kernel, best.algorithm, best.math);
  if (Tunes(*kernel.session, kernel.problem) && best.workspace_bytes < wanted) {
    // Room for the better plan that comes when the kernel is measured, never more than the genuine
    // library's own first choice takes.
    ConvolutionProblem problem = kernel.problem;
    problem.math = static_cast<MathType>(best.math);
    const MicroConfiguration undivided = {cudnn::LegacyEngineName({best.algorithm, std::nullopt}),
                                          problem.n, kUnknownTime, best.workspace_bytes,
                                          best.determinism == CUDNN_DETERMINISTIC};
    best.workspace_bytes = std::min(limit_bytes, wanted);
    Promise promise = {undivided, best.workspace_bytes, {{{undivided, 1}}}, undivided,
                       undivided, limit_bytes};
    promise.provisional = true;
    promise.reported.workspace_bytes = best.workspace_bytes;
    promises_.Add({kernel.session->platform(), best.algorithm, problem}, std::move(promise));
  }
  return ranking;
}

std::optional<std::vector<AlgorithmPerformance>> Interposer::FindAlgorithms(
    Operation operation, cudnnHandle_t handle, const cudnn::Descriptors& descriptors,
    std::optional<size_t> caller_bytes) {
  const std::optional<Kernel> kernel = Meet(operation, handle, descriptors);
  if (!kernel) return std::nullopt;
  const size_t ours = UserLimit(*kernel->session);
  size_t limit = std::min(caller_bytes.value_or(kNoLimit), ours);
  if (auto pinned = PinnedAnswer(*kernel, limit)) return pinned;
  const Measurements measured =
      Measured(*kernel, RequestFor(kernel->problem, MeasuredLimit(*kernel, limit)),
               MeasuresBeforePromising(*kernel->session, kernel->problem));
  if (!Compares(*kernel, measured)) return AnswerUnmeasured(*kernel, handle, descriptors, limit);
  // What was left out of measuring may be the fastest; without a limit of the user's the genuine
  // library may still find it.
  const bool all = kernels_.HasAllEngines(DeviceOf(*kernel->session), kernel->problem);
  if (ours == kNoLimit && !all) return std::nullopt;
  if (limit == kNoLimit) {
    // The genuine library's own choice: the fastest whatever it needs.
    std::optional<MicroConfiguration> fastest;
    for (const cudnn::MathGroup& group : cudnn::GroupByMath(kernel->problem, measured.rows)) {
      const auto of_group =
          planning::FastestUndivided(group.candidates, RequestFor(kernel->problem, kNoLimit));
      if (of_group && (!fastest || of_group->time_ms < fastest->time_ms)) fastest = of_group;
    }
    limit = fastest ? fastest->workspace_bytes : 0;
  }
  Answer answer = AnswerWithin(*kernel, measured, limit);
  if (!answer.empty()) return answer;
  // Where the caller's own workspace is too small, failing is the genuine library's answer.
  if (limit != ours) return std::nullopt;
  return NothingFits(kernel->problem, "no undivided engine fits the workspace limit");
}

std::optional<std::vector<AlgorithmPerformance>> Interposer::GetAlgorithms(
    Operation operation, cudnnHandle_t handle, const cudnn::Descriptors& descriptors,
    std::optional<size_t> caller_bytes) {
  const std::optional<Kernel> kernel = Meet(operation, handle, descriptors);
  if (!kernel) return std::nullopt;
  const bool may_measure = MeasuresBeforePromising(*kernel->session, kernel->problem);
  const size_t ours = UserLimit(*kernel->session);
  const size_t limit = std::min(ours, caller_bytes.value_or(kNoLimit));
  if (auto pinned = PinnedAnswer(*kernel, limit)) return pinned;
  if (limit != kNoLimit) {
    const Measurements measured =
        Measured(*kernel, RequestFor(kernel->problem, MeasuredLimit(*kernel, limit)), may_measure);
    if (!Compares(*kernel, measured)) return AnswerUnmeasured(*kernel, handle, descriptors, limit);
    Answer answer = AnswerWithin(*kernel, measured, limit);
    if (!answer.empty()) return answer;
    // Where the caller's own limit is too low, that is for the genuine library to say.
    if (limit != ours) return std::nullopt;
    return NothingFits(kernel->problem, "no undivided engine fits the workspace limit");
  }
  // Without a limit: the heuristic's own choice sets it, and stays the answer unless
  // something measured is faster in the same workspace.
  Answer ranking;
  if (cudnn::RankAlgorithms(functions_, operation, handle, descriptors, ranking) !=
          CUDNN_STATUS_SUCCESS ||
      ranking.empty() || ranking[0].status != CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  const Measurements measured =
      Measured(*kernel, RequestFor(kernel->problem, ranking[0].workspace_bytes), may_measure);
  if (measured.rows.empty()) return AnswerUnmeasured(*kernel, handle, descriptors, kNoLimit);
  const std::optional<AlgorithmPerformance> choice =
      MeasuredAs(ranking[0], kernel->problem, measured.rows);
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
    const bool demanded = !options_.deterministic || ranked.determinism == CUDNN_DETERMINISTIC;
    if (demanded && listed(ranked) == answer.end()) answer.push_back(ranked);
  }
  return answer;
}

std::optional<Promise> Interposer::PromiseFor(const Kernel& kernel, cudnnHandle_t handle,
                                              const cudnn::Descriptors& descriptors, int algorithm,
                                              size_t need_bytes, size_t limit_bytes) {
  const ConvolutionProblem& problem = kernel.problem;
  planning::PromiseRequest request = RequestFor(problem, limit_bytes);
  request.chosen = cudnn::LegacyNumericClass(problem.operation, algorithm);
  const Measurements measured =
      Measured(kernel, request, MeasuresBeforePromising(*kernel.session, problem));
  std::vector<Candidate> candidates = OwnCandidates(problem, measured);
  const bool ranked_only = candidates.empty();
  if (ranked_only) {
    // Undivided, in the order of the genuine library's heuristics.
    Answer ranking;
    if (cudnn::RankAlgorithms(functions_, problem.operation, handle, descriptors, ranking) !=
        CUDNN_STATUS_SUCCESS) {
      return std::nullopt;
    }
    std::vector<MicroConfiguration> rows;
    for (const AlgorithmPerformance& ranked : ranking) {
      if (ranked.status != CUDNN_STATUS_SUCCESS) continue;
      if (static_cast<MathType>(ranked.math) != problem.math) continue;
      // The size that execution checks, not only the heuristic's.
      size_t bytes = 0;
      if (cudnn::WorkspaceBytes(functions_, problem.operation, handle, descriptors,
                                ranked.algorithm, &bytes) != CUDNN_STATUS_SUCCESS) {
        continue;
      }
      rows.push_back({cudnn::LegacyEngineName({ranked.algorithm, std::nullopt}), problem.n,
                      static_cast<double>(rows.size()), std::max(bytes, ranked.workspace_bytes),
                      ranked.determinism == CUDNN_DETERMINISTIC});
    }
    candidates = cudnn::OwnMathCandidates(problem, rows);
  }
  const std::string engine = cudnn::LegacyEngineName({algorithm, std::nullopt});
  request.deterministic |=
      std::none_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
        return candidate.micro.engine == engine && !candidate.micro.deterministic;
      });
  std::optional<Promise> promise = planning::MakePromise(candidates, request);
  if (promise && !MakeKeepableAlone(problem.operation, algorithm, candidates, request, *promise)) {
    return std::nullopt;
  }
  if (!promise) return std::nullopt;
  promise->provisional = !measured.settled;
  if (ranked_only) {
    for (MicroConfiguration* micro : {&promise->reported, &promise->plan.runs[0].micro,
                                      &promise->undivided, &promise->fastest_undivided}) {
      micro->time_ms = kUnknownTime;
    }
  }
  // Room for the better plan that comes when all is measured.
  if (promise->provisional && Tunes(*kernel.session, kernel.problem)) {
    promise->workspace_bytes = std::min(limit_bytes, need_bytes);
  }
  return promise;
}

cudnnStatus_t Interposer::WorkspaceSize(Operation operation, cudnnHandle_t handle,
                                        const cudnn::Descriptors& descriptors, int algorithm,
                                        size_t* bytes) {
  const cudnnStatus_t status =
      cudnn::WorkspaceBytes(functions_, operation, handle, descriptors, algorithm, bytes);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const std::optional<Kernel> kernel = Meet(operation, handle, descriptors);
  if (!kernel) return status;
  NoteAsked(*kernel, algorithm, static_cast<cudnnMathType_t>(kernel->problem.math));
  const PromiseKey key{kernel->session->platform(), algorithm, kernel->problem};
  if (const std::optional<size_t> reported = promises_.LastReported(key)) {
    *bytes = *reported;
    return status;
  }
  const size_t limit = UserLimit(*kernel->session);
  auto pinned = PinnedPromise(*kernel, algorithm, MeasuredLimit(*kernel, limit));
  if (pinned && PromisePinned(*kernel, algorithm, *pinned)) {
    *bytes = pinned->workspace_bytes;
    return status;
  }
  if (*bytes <= limit) return status;
  // The caller chose the algorithm without asking: engines as exact and as deterministic may serve
  // it.
  std::optional<Promise> promise =
      PromiseFor(*kernel, handle, descriptors, algorithm, *bytes, limit);
  if (!promise) {
    Fallback(kernel->problem, "cannot be brought under the workspace limit");
    return options_.strict_limit ? CUDNN_STATUS_NOT_SUPPORTED : status;
  }
  *bytes = promise->workspace_bytes;
  promises_.Add(key, std::move(*promise));
  return status;
}

}  // namespace ucudnn::interposer
