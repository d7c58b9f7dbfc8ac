// Answers cudnnGetConvolution* and cudnnFindConvolution*: with promises, or with the real library's
// answer if nothing is promised.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"
#include "interposer/legacy/legacy_calls.h"
#include "planning/decision/decide.h"
#include "planning/decision/offers.h"
#include "planning/math_groups.h"

namespace ucudnn::interposer {
namespace {

using cudnn::AlgorithmPerformance;
using planning::Candidate;
using planning::FallbackCause;
using planning::Promise;

bool SameEngine(const AlgorithmPerformance& a, const AlgorithmPerformance& b) {
  return a.algorithm == b.algorithm && a.math == b.math;
}

// Returns whether the engine is as deterministic as the user demands.
bool IsDemanded(const Options& options, const AlgorithmPerformance& performance) {
  return !options.deterministic || performance.determinism == CUDNN_DETERMINISTIC;
}

// Returns the measured performance of `choice`, an undivided engine that the heuristics have
// chosen; none if it was not measured.
std::optional<AlgorithmPerformance> MeasuredAs(const AlgorithmPerformance& choice,
                                               const ConvolutionProblem& problem,
                                               const std::vector<MicroConfiguration>& measured) {
  for (const planning::MathGroup& group : planning::GroupByMath(problem, measured)) {
    for (const Candidate& candidate : group.candidates) {
      if (!candidate.micro.IsWhole(problem.n)) continue;
      const AlgorithmPerformance performance = cudnn::PerformanceOf(candidate.micro, group.math);
      if (SameEngine(performance, choice)) return performance;
    }
  }
  return std::nullopt;
}

// Returns the workspace of the fastest undivided engine of any math type. The real library would
// choose that engine without a limit.
size_t NeedOfFastest(const ConvolutionProblem& problem, const tuning::LegacyRows& measured,
                     const planning::PromiseRequest& request) {
  std::optional<MicroConfiguration> fastest;
  for (const planning::MathGroup& group : planning::GroupByMath(problem, measured.rows)) {
    const auto of_group = planning::FastestUndivided(group.candidates, request);
    if (of_group && (!fastest || of_group->time_ms < fastest->time_ms)) fastest = of_group;
  }
  return fastest ? fastest->workspace_bytes : 0;
}

}  // namespace

std::optional<LegacyKernel> LegacyCalls::QueriedKernel(Operation operation, cudnnHandle_t handle,
                                                       const cudnn::Descriptors& descriptors) {
  if (options_.mode != Mode::kOn) return std::nullopt;
  LegacyKernel kernel;
  kernel.session = sessions_.Of(handle);
  kernel.handle = handle;
  if (kernel.session == nullptr) return std::nullopt;
  const char* const why = cudnn::ReadProblem(functions_, operation, descriptors, kernel.problem);
  if (why != nullptr) {
    if (LogEnabled(LogLevel::kDebug)) Log(LogLevel::kDebug, std::string("left alone: ") + why);
    return std::nullopt;
  }
  const int platform = kernel.session->platform();
  if (promises_.full() && !promises_.Knows(platform, kernel.problem)) {
    reporter_.TooManyKernels();
    return std::nullopt;
  }
  return kernel;
}

bool LegacyCalls::Compares(const LegacyKernel& kernel, const tuning::LegacyRows& measured) {
  const auto is_whole = [&](const MicroConfiguration& row) {
    return row.IsWhole(kernel.problem.n);
  };
  return std::any_of(measured.rows.begin(), measured.rows.end(), is_whole) &&
         (measured.whole_tried || !rules_.Tunes(*kernel.session, kernel.problem, Api::kLegacy));
}

size_t LegacyCalls::MeasuredLimit(const LegacyKernel& kernel, size_t limit_bytes) const {
  const WorkspaceBudget* const budget = kernel.session->budget();
  return budget == nullptr ? limit_bytes : rules_.LimitOf(*budget);
}

planning::Tilings LegacyCalls::FindTilings(const LegacyKernel& kernel,
                                           const std::vector<Candidate>& candidates,
                                           size_t need_bytes,
                                           const planning::PromiseRequest& request) {
  // Under a budget, tiles use ucudnn's own workspace, and are planned when the budget is divided.
  if (kernel.session->budget() != nullptr) return {};
  const planning::TileUse use = rules_.UseOfTiles(*kernel.session, kernel.problem, need_bytes);
  if (!planning::MayTile(use, candidates, request)) return {};
  // The caller will pass no more workspace than it is told, so tiles are timed before the answer.
  const auto proof =
      rules_.MayProve(*kernel.session) ? planning::Proof::kOnce : planning::Proof::kKnown;
  return tuner_.FastTilingsOf(kernel, candidates, request, proof);
}

planning::Tilings LegacyCalls::TilingsInBudget(LegacyKernel kernel,
                                               const std::vector<Candidate>& candidates,
                                               size_t need_bytes, size_t part_bytes) {
  const ConvolutionProblem& problem = kernel.problem;
  const planning::TileUse use = rules_.UseOfTiles(*kernel.session, problem, need_bytes);
  if (!planning::MayTile(use, candidates, rules_.RequestFor(problem, part_bytes))) return {};
  kernel.may_measure &= planning::MayMeasureTiles(use, need_bytes, part_bytes);
  return tuner_.TilingsOf(kernel, rules_.RequestFor(problem, MeasuredLimit(kernel, 0)));
}

size_t LegacyCalls::NeedOfChoice(const LegacyKernel& kernel, const cudnn::Descriptors& descriptors,
                                 const std::vector<Candidate>& candidates) {
  const ConvolutionProblem& problem = kernel.problem;
  const MicroConfiguration fastest =
      planning::FindBaselines(candidates, rules_.RequestFor(problem, kNoLimit)).any_api;
  if (tuner_.HasAllEngines(kernel)) {
    return fastest.workspace_bytes;
  }
  Performances ranking;
  const bool ranks = cudnn::RankAlgorithms(functions_, problem.operation, kernel.handle,
                                           descriptors, ranking) == CUDNN_STATUS_SUCCESS &&
                     !ranking.empty() && ranking[0].status == CUDNN_STATUS_SUCCESS;
  return std::max(fastest.workspace_bytes, ranks ? ranking[0].workspace_bytes : 0);
}

LegacyCalls::Performances LegacyCalls::AnswerWithin(const LegacyKernel& kernel,
                                                    const cudnn::Descriptors& descriptors,
                                                    const tuning::LegacyRows& measured,
                                                    size_t limit_bytes) {
  const ConvolutionProblem& problem = kernel.problem;
  const planning::PromiseRequest request =
      rules_.RequestFor(problem, MeasuredLimit(kernel, limit_bytes));
  const bool in_budget = kernel.session->budget() != nullptr;
  std::vector<planning::Offer> offers;
  for (const planning::MathGroup& group : tuning::Groups(problem, measured)) {
    const std::vector<Candidate>& candidates = group.candidates;
    const bool own = group.math == problem.math;
    const size_t need = own ? NeedOfChoice(kernel, descriptors, candidates) : 0;
    if (in_budget) {
      const planning::Tilings tilings =
          own ? TilingsInBudget(kernel, candidates, need, request.limit_bytes)
              : planning::Tilings{};
      planning::AddOffersInBudget(problem.operation, group.math, candidates, request, offers,
                                  tilings.measured);
      continue;
    }
    planning::AddOffers(problem.operation, group.math, candidates, request, offers);
    if (!own) continue;
    const planning::Tilings tilings = FindTilings(kernel, candidates, need, request);
    planning::AddTiles(problem.operation, group.math, candidates, tilings.measured, request,
                       offers);
    if (!tilings.measured.empty()) continue;
    for (planning::Offer& offer : offers) {
      if (offer.math == group.math) offer.promise.no_tiles = planning::WhyNoTiles(tilings);
    }
  }
  return Promised(kernel, planning::BestFirst(std::move(offers)), measured.settled);
}

LegacyCalls::Performances LegacyCalls::Promised(const LegacyKernel& kernel,
                                                std::vector<planning::Offer> offers, bool settled) {
  Performances answer;
  for (planning::Offer& offer : offers) {
    answer.push_back(cudnn::PerformanceOf(offer.promise.reported, offer.math));
    ConvolutionProblem as_told = kernel.problem;
    as_told.math = offer.math;
    offer.promise.provisional = !settled;
    promises_.Add({kernel.session->platform(), answer.back().algorithm, as_told},
                  std::move(offer.promise));
  }
  if (!answer.empty()) {
    NoteAsked(kernel, answer[0].algorithm, static_cast<MathType>(answer[0].math));
  }
  return answer;
}

LegacyCalls::Performances LegacyCalls::AnswerOfPieces(const LegacyKernel& kernel,
                                                      const cudnn::Descriptors& descriptors,
                                                      const tuning::LegacyRows& measured,
                                                      size_t limit_bytes, size_t caller_bytes) {
  if (!rules_.MayProve(*kernel.session)) return {};
  const bool in_budget = kernel.session->budget() != nullptr;
  const auto add = in_budget ? planning::AddPiecesInBudget : planning::AddPieces;
  const planning::PromiseRequest request =
      rules_.RequestFor(kernel.problem, MeasuredLimit(kernel, limit_bytes));
  std::vector<planning::Offer> offers;
  for (const planning::MathGroup& group : tuning::Groups(kernel.problem, measured)) {
    add(kernel.problem.operation, group.math, group.candidates, request, offers);
  }
  int wrong = 0;
  for (planning::Offer& offer : planning::BestFirst(std::move(offers))) {
    LegacyKernel as_told = kernel;
    as_told.problem.math = offer.math;
    const planning::Trust trust = Prove(as_told, offer.promise);
    if (trust.kind == planning::Trust::Kind::kWrong && ++wrong >= planning::kMostWrong) break;
    if (trust.kind != planning::Trust::Kind::kTrusted ||
        !Assure(kernel, planning::AssuredBytes(offer.promise)))
      continue;
    Performances answer = Promised(kernel, {std::move(offer)}, true);
    // A caller may have less memory than the pieces need. Unless the user's limit is strict, such a
    // caller may still use an engine of the real library's ranking that fits the caller's limit.
    Performances ranking;
    if (!options_.strict_limit && !in_budget &&
        cudnn::RankAlgorithms(functions_, kernel.problem.operation, kernel.handle, descriptors,
                              ranking) == CUDNN_STATUS_SUCCESS) {
      std::erase_if(ranking, [&](const AlgorithmPerformance& ranked) {
        return ranked.status != CUDNN_STATUS_SUCCESS || SameEngine(ranked, answer[0]) ||
               ranked.workspace_bytes > caller_bytes || !IsDemanded(options_, ranked);
      });
      answer.insert(answer.end(), ranking.begin(), ranking.end());
    }
    return answer;
  }
  return {};
}

void LegacyCalls::NoteAsked(const LegacyKernel& kernel, int algorithm, MathType math) {
  WorkspaceBudget* const budget = kernel.session->budget();
  if (budget == nullptr || !budget->learning()) return;
  ConvolutionProblem problem = kernel.problem;
  problem.math = math;
  budget->Ask({Api::kLegacy, problem, 0, algorithm});
}

std::optional<LegacyCalls::Performances> LegacyCalls::NothingFits(const ConvolutionProblem& problem,
                                                                  FallbackCause cause) {
  reporter_.Fallback(problem, cause);
  if (options_.strict_limit) return Performances{};
  return std::nullopt;
}

std::optional<LegacyCalls::Performances> LegacyCalls::AnswerUnmeasured(
    const LegacyKernel& kernel, const cudnn::Descriptors& descriptors, size_t limit_bytes) {
  const bool deterministic = options_.deterministic;
  const size_t ours = rules_.UserLimit(*kernel.session);
  Performances ranking;
  if ((ours == kNoLimit && !deterministic) ||
      cudnn::RankAlgorithms(functions_, kernel.problem.operation, kernel.handle, descriptors,
                            ranking) != CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  std::erase_if(ranking, [&](const AlgorithmPerformance& ranked) {
    return ranked.status != CUDNN_STATUS_SUCCESS || !IsDemanded(options_, ranked);
  });
  const size_t wanted = ranking.empty() ? 0 : ranking[0].workspace_bytes;
  std::erase_if(ranking, [&](const AlgorithmPerformance& ranked) {
    return ranked.workspace_bytes > limit_bytes;
  });
  if (ranking.empty()) {
    if (limit_bytes != ours && !deterministic) return std::nullopt;
    return NothingFits(kernel.problem, FallbackCause::kNothingKnownFits);
  }
  AlgorithmPerformance& best = ranking[0];
  const auto math = static_cast<MathType>(best.math);
  NoteAsked(kernel, best.algorithm, math);
  const bool tunes = rules_.Tunes(*kernel.session, kernel.problem, Api::kLegacy);
  if (tunes && best.workspace_bytes < wanted) {
    // The caller is told the size that a better plan may use once the kernel is measured: at most
    // the need of the real library's own first choice.
    ConvolutionProblem problem = kernel.problem;
    problem.math = math;
    const MicroConfiguration undivided = {EngineId::Legacy{best.algorithm, std::nullopt}, problem.n,
                                          planning::kUnknownTime, best.workspace_bytes,
                                          best.determinism == CUDNN_DETERMINISTIC};
    best.workspace_bytes = std::min(limit_bytes, wanted);
    Promise promise = {undivided, best.workspace_bytes, {{{undivided, 1}}}, undivided};
    promise.limit_bytes = limit_bytes;
    promise.provisional = true;
    promise.reported.workspace_bytes = best.workspace_bytes;
    promises_.Add({kernel.session->platform(), best.algorithm, problem}, std::move(promise));
  }
  return ranking;
}

std::optional<LegacyCalls::Performances> LegacyCalls::FindAlgorithms(
    Operation operation, cudnnHandle_t handle, const cudnn::Descriptors& descriptors,
    std::optional<size_t> caller_bytes) {
  std::optional<LegacyKernel> kernel = QueriedKernel(operation, handle, descriptors);
  if (!kernel) return std::nullopt;
  const ConvolutionProblem& problem = kernel->problem;
  const size_t ours = rules_.UserLimit(*kernel->session);
  const size_t caller = caller_bytes.value_or(kNoLimit);
  size_t limit = std::min(caller, ours);
  if (auto answer = ConfirmedAnswer(*kernel, limit)) return answer;
  kernel->may_measure = rules_.MeasuresBeforePromising(*kernel->session, problem, Api::kLegacy);
  const tuning::LegacyRows measured =
      tuner_.Measured(*kernel, rules_.RequestFor(problem, MeasuredLimit(*kernel, limit)));
  if (!Compares(*kernel, measured)) return AnswerUnmeasured(*kernel, descriptors, limit);
  // An engine that was not measured may be the fastest. Without a limit of the user's, the real
  // library may find that engine, so the real library answers.
  const bool all = tuner_.HasAllEngines(*kernel);
  if (ours == kNoLimit && !all) return std::nullopt;
  if (limit == kNoLimit) {
    limit = NeedOfFastest(problem, measured, rules_.RequestFor(problem, kNoLimit));
  }
  Performances answer = AnswerWithin(*kernel, descriptors, measured, limit);
  if (answer.empty()) answer = AnswerOfPieces(*kernel, descriptors, measured, limit, caller);
  if (!answer.empty()) return answer;
  // The caller's own workspace is too small; the real library reports that.
  if (limit != ours) return std::nullopt;
  return NothingFits(problem, FallbackCause::kNothingUndividedFits);
}

std::optional<LegacyCalls::Performances> LegacyCalls::GetAlgorithms(
    Operation operation, cudnnHandle_t handle, const cudnn::Descriptors& descriptors,
    std::optional<size_t> caller_bytes) {
  std::optional<LegacyKernel> kernel = QueriedKernel(operation, handle, descriptors);
  if (!kernel) return std::nullopt;
  const ConvolutionProblem& problem = kernel->problem;
  kernel->may_measure = rules_.MeasuresBeforePromising(*kernel->session, problem, Api::kLegacy);
  const size_t ours = rules_.UserLimit(*kernel->session);
  const size_t caller = caller_bytes.value_or(kNoLimit);
  const size_t limit = std::min(caller, ours);
  if (auto answer = ConfirmedAnswer(*kernel, limit)) return answer;
  if (limit != kNoLimit) {
    const tuning::LegacyRows measured =
        tuner_.Measured(*kernel, rules_.RequestFor(problem, MeasuredLimit(*kernel, limit)));
    if (!Compares(*kernel, measured)) return AnswerUnmeasured(*kernel, descriptors, limit);
    Performances answer = AnswerWithin(*kernel, descriptors, measured, limit);
    if (answer.empty()) answer = AnswerOfPieces(*kernel, descriptors, measured, limit, caller);
    if (!answer.empty()) return answer;
    // The caller's own limit is too low; the real library reports that.
    if (limit != ours) return std::nullopt;
    return NothingFits(problem, FallbackCause::kNothingUndividedFits);
  }
  // Without any limit, the workspace of the heuristics' first choice becomes the limit. That choice
  // is the answer unless a measured engine is faster within this limit.
  Performances ranking;
  if (cudnn::RankAlgorithms(functions_, operation, handle, descriptors, ranking) !=
          CUDNN_STATUS_SUCCESS ||
      ranking.empty() || ranking[0].status != CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  const tuning::LegacyRows measured =
      tuner_.Measured(*kernel, rules_.RequestFor(problem, ranking[0].workspace_bytes));
  if (measured.rows.empty()) return AnswerUnmeasured(*kernel, descriptors, kNoLimit);
  const std::optional<AlgorithmPerformance> choice = MeasuredAs(ranking[0], problem, measured.rows);
  if (!choice) return std::nullopt;
  Performances answer = AnswerWithin(*kernel, descriptors, measured, choice->workspace_bytes);
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
    if (IsDemanded(options_, ranked) && listed(ranked) == answer.end()) answer.push_back(ranked);
  }
  return answer;
}

std::vector<Candidate> LegacyCalls::Ranked(const LegacyKernel& kernel,
                                           const cudnn::Descriptors& descriptors) {
  const ConvolutionProblem& problem = kernel.problem;
  Performances ranking;
  if (cudnn::RankAlgorithms(functions_, problem.operation, kernel.handle, descriptors, ranking) !=
      CUDNN_STATUS_SUCCESS) {
    return {};
  }
  std::vector<MicroConfiguration> rows;
  for (const AlgorithmPerformance& ranked : ranking) {
    if (ranked.status != CUDNN_STATUS_SUCCESS) continue;
    // The engine may run with the caller's math type, whichever math type the ranking lists it
    // with.
    const EngineId engine = EngineId::Legacy{ranked.algorithm, std::nullopt};
    const bool known = std::any_of(rows.begin(), rows.end(), [&](const MicroConfiguration& row) {
      return row.engine == engine;
    });
    if (known) continue;
    // When the engine runs, its workspace is checked against the size that WorkspaceBytes returns.
    // The heuristics may state a smaller size.
    size_t bytes = 0;
    if (cudnn::WorkspaceBytes(functions_, problem.operation, kernel.handle, descriptors,
                              ranked.algorithm, &bytes) != CUDNN_STATUS_SUCCESS) {
      continue;
    }
    rows.push_back({engine, problem.n, static_cast<double>(rows.size()),
                    std::max(bytes, ranked.workspace_bytes),
                    ranked.determinism == CUDNN_DETERMINISTIC});
  }
  return planning::OwnMathCandidates(problem, rows);
}

LegacyCalls::NamedAnswer LegacyCalls::PromiseFor(const LegacyKernel& kernel,
                                                 const cudnn::Descriptors& descriptors,
                                                 int algorithm, size_t need_bytes,
                                                 size_t limit_bytes) {
  const ConvolutionProblem& problem = kernel.problem;
  planning::NamedOffer offer{Named(kernel, algorithm, limit_bytes), need_bytes};
  planning::PromiseRequest request = rules_.RequestFor(problem, limit_bytes);
  request.chosen = offer.named.numeric;
  const tuning::LegacyRows measured = tuner_.Measured(kernel, request);
  std::vector<Candidate> candidates = tuning::OwnCandidates(problem, measured);
  offer.settled = measured.settled;
  offer.tunes = rules_.Tunes(*kernel.session, problem, Api::kLegacy);
  offer.budget_bytes = MeasuredLimit(kernel, 0);
  const planning::Tilings tilings = FindTilings(kernel, candidates, need_bytes, request);
  offer.settled &= tilings.settled;
  const auto offer_for = [&](const planning::NamedOffer& asked,
                             const std::vector<Candidate>& known) -> std::optional<Promise> {
    std::optional<Promise> promise = planning::OfferFor(asked, known, tilings.measured);
    if (!promise || Assure(kernel, planning::AssuredBytes(*promise))) return promise;
    planning::NamedOffer without = asked;
    without.budget_bytes = 0;
    return planning::OfferFor(without, known);
  };
  if (auto promise = offer_for(offer, candidates)) return {std::move(promise)};
  // An engine that was not measured may fit, so the undivided engines that the heuristics rank are
  // tried.
  const auto of_heuristics = [&] {
    planning::NamedOffer unmeasured = offer;
    unmeasured.ranked = true;
    return offer_for(unmeasured, Ranked(kernel, descriptors));
  };
  const bool knows_whole =
      std::any_of(candidates.begin(), candidates.end(),
                  [&](const Candidate& candidate) { return candidate.micro.IsWhole(problem.n); });
  NamedAnswer answer;
  answer.why_none.detail = planning::WhyNoTiles(tilings);
  if (!knows_whole) answer.promise = of_heuristics();
  if (answer.promise) return answer;
  if (measured.late) answer.why_none.cause = FallbackCause::kNotMeasuredOverLimit;
  const bool may_prove = rules_.MayProve(*kernel.session);
  for (int wrong = 0; may_prove && wrong < planning::kMostWrong; ++wrong) {
    answer.promise = planning::PiecesFor(offer, candidates);
    if (!answer.promise) break;
    const planning::Trust trust = Prove(kernel, *answer.promise);
    const bool trusted = trust.kind == planning::Trust::Kind::kTrusted;
    if (trusted && Assure(kernel, planning::AssuredBytes(*answer.promise))) return answer;
    answer.promise.reset();
    if (trust.kind != planning::Trust::Kind::kWrong) {
      answer.why_none.detail = trusted ? Sentence(planning::Detail::kNoRoomInTotal) : trust.message;
      break;
    }
    candidates = tuning::OwnCandidates(problem, tuner_.Measured(kernel, request));
  }
  if (knows_whole && !measured.settled && offer.tunes) answer.promise = of_heuristics();
  return answer;
}

bool LegacyCalls::Assure(const LegacyKernel& kernel, size_t bytes) const {
  WorkspaceBudget* const budget = kernel.session->budget();
  return bytes == 0 || (budget != nullptr && budget->Assure(bytes));
}

planning::Trust LegacyCalls::Prove(const LegacyKernel& kernel, const Promise& pieces) {
  const planning::Trust trust =
      tuner_.Verify(kernel, {pieces.configuration, pieces.reference, planning::Proof::kHere});
  if (trust.kind == planning::Trust::Kind::kWrong) {
    reporter_.Fallback(kernel.problem, FallbackCause::kDivisionWrong, trust.message);
  }
  return trust;
}

cudnnStatus_t LegacyCalls::WorkspaceSize(Operation operation, cudnnHandle_t handle,
                                         const cudnn::Descriptors& descriptors, int algorithm,
                                         size_t* bytes) {
  const cudnnStatus_t status =
      cudnn::WorkspaceBytes(functions_, operation, handle, descriptors, algorithm, bytes);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  std::optional<LegacyKernel> kernel = QueriedKernel(operation, handle, descriptors);
  if (!kernel) return status;
  NoteAsked(*kernel, algorithm, kernel->problem.math);
  const PromiseKey key{kernel->session->platform(), algorithm, kernel->problem};
  // Repeats an earlier promise, unless the workspace budget of this device has too little memory
  // left for the bytes that must be assured.
  const auto reported = promises_.LastReported(key);
  if (reported && Assure(*kernel, reported->assured_bytes)) {
    *bytes = reported->workspace_bytes;
    return status;
  }
  const size_t limit = rules_.UserLimit(*kernel->session);
  if (const auto confirmed = tuner_.FindConfirmed(*kernel).choice) {
    auto promise = planning::PromiseOfWorkspacePlan(
        *confirmed, Named(*kernel, algorithm, MeasuredLimit(*kernel, limit)));
    if (promise && PromiseConfirmed(*kernel, *confirmed, algorithm, *promise)) {
      *bytes = promise->workspace_bytes;
      return status;
    }
  }
  if (*bytes <= limit) return status;
  // The caller chose the algorithm without asking, so engines that are at least as exact and as
  // deterministic may replace it.
  kernel->may_measure =
      rules_.MeasuresBeforePromising(*kernel->session, kernel->problem, Api::kLegacy);
  NamedAnswer named = PromiseFor(*kernel, descriptors, algorithm, *bytes, limit);
  if (!named.promise) {
    reporter_.Fallback(kernel->problem, named.why_none.cause, named.why_none.detail);
    return options_.strict_limit ? CUDNN_STATUS_NOT_SUPPORTED : status;
  }
  if (named.promise->workspace_bytes > limit) {
    reporter_.Fallback(kernel->problem, FallbackCause::kOverLimit,
                       Sentence(planning::Detail::kServesIdentity));
    if (options_.strict_limit) return CUDNN_STATUS_NOT_SUPPORTED;
  }
  *bytes = named.promise->workspace_bytes;
  promises_.Add(key, std::move(*named.promise));
  return status;
}

}  // namespace ucudnn::interposer
