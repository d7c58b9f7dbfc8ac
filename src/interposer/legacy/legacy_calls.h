// The application's calls of cuDNN's legacy convolution API. Every function answers like the
// real one. Thread-safe. Functions are defined in legacy_calls.cpp but for those that name
// another file.
#pragma once

#include <optional>
#include <vector>

#include "cudnn/convolution_call.h"
#include "interposer/budget/budgets.h"
#include "interposer/legacy/legacy_kernel.h"
#include "interposer/session/call_state.h"
#include "planning/decision/offers.h"

namespace ucudnn::interposer {

class LegacyCalls : public DivisionChoices {
 public:
  explicit LegacyCalls(Process& process) : process_(process) {}

  // In a process whose calls are split, the call is the rank's part of a larger one.
  cudnnStatus_t Convolve(const cudnn::ConvolutionCall& call);

  // In queries.cpp, as are FindAlgorithms and GetAlgorithms: what callers are told.
  cudnnStatus_t WorkspaceSize(Operation operation, cudnnHandle_t handle,
                              const cudnn::Descriptors& descriptors, int algorithm, size_t* bytes);
  using Performances = std::vector<cudnn::AlgorithmPerformance>;
  // The answer to cudnnFindConvolution*Algorithm(Ex), best first; none when the real library
  // must answer. `caller_bytes` is the workspace passed to ...Ex, none for the function without.
  std::optional<Performances> FindAlgorithms(Operation operation, cudnnHandle_t handle,
                                             const cudnn::Descriptors& descriptors,
                                             std::optional<size_t> caller_bytes);
  // The answer to cudnnGetConvolution*Algorithm_v7, as above; `caller_bytes` is a limit that the
  // caller names.
  std::optional<Performances> GetAlgorithms(Operation operation, cudnnHandle_t handle,
                                            const cudnn::Descriptors& descriptors,
                                            std::optional<size_t> caller_bytes = std::nullopt);

  std::vector<Configuration> ChoicesOf(const DivisionQuestion& question) override;

 private:
  // The call alone, as if no other rank were there.
  cudnnStatus_t ConvolveHere(const cudnn::ConvolutionCall& call);
  cudnnStatus_t ConvolveSplit(const cudnn::ConvolutionCall& call);
  // The kind of a call; none where the call is left alone.
  std::optional<CallKind> KindOf(const cudnn::ConvolutionCall& call,
                                 const ConvolutionProblem& problem) const;
  // Whether a decision may be kept for a call that its session has not met before.
  bool MayRemember(const Session& session, const CallKey& key);
  // Whether only pieces may keep what the program was told for such calls.
  bool NeedsPlan(const Session& session, const CallKey& key) const;

  // In call_decision.cpp, as are FactsOf, NoteScarceWorkspace and ChoicesOf. Decides about a call
  // and keeps the decision on its session. `earlier` is the decision in force; null at the first
  // call. Returns null where nothing was decided: the call then runs as it is.
  CallState* Decide(const cudnn::ConvolutionCall& call, Session& session, const CallKey& key,
                    CallState* earlier);
  planning::Facts FactsOf(const cudnn::ConvolutionCall& call, const LegacyKernel& kernel,
                          const CallKey& key);
  // Lowers a limit from free memory when a caller passes less than it was told, which shows that
  // its allocation failed; to no less than half of what it was told.
  void NoteScarceWorkspace(const PromiseKey& key, size_t passed_bytes);

  // In queries.cpp, as is all that follows up to NoteAsked. The kernel that a caller asks about;
  // none where nothing can be promised for it.
  std::optional<LegacyKernel> Meet(Operation operation, cudnnHandle_t handle,
                                   const cudnn::Descriptors& descriptors);
  // Whether `measured` tells which engine is the fastest, or can never tell more than it does.
  bool Compares(const LegacyKernel& kernel, const tuning::LegacyRows& measured);
  // The limit to measure for where the caller's is `limit_bytes`: under a budget, the budget's.
  size_t MeasuredLimit(const LegacyKernel& kernel, size_t limit_bytes) const;
  // The answer from measurements: every algorithm and math type that fits, once and at its fastest,
  // undivided or as a promise; the promises are entered into the book. Empty when none fits. Under
  // a budget: every algorithm that an engine without workspace can keep.
  Performances AnswerWithin(const LegacyKernel& kernel, const cudnn::Descriptors& descriptors,
                            const tuning::LegacyRows& measured, size_t limit_bytes);
  // Grids of tiles for callers with the problem's own math type, of which `candidates` are known,
  // where the program would run what needs `need_bytes` undivided, and tiles may serve in its
  // place.
  planning::Tilings FindTilings(const LegacyKernel& kernel,
                                const std::vector<planning::Candidate>& candidates,
                                size_t need_bytes, const planning::PromiseRequest& request);
  // The same under one budget, where `part_bytes` of it may be the kernel's.
  planning::Tilings TilingsInBudget(LegacyKernel kernel,
                                    const std::vector<planning::Candidate>& candidates,
                                    size_t need_bytes, size_t part_bytes);
  // The workspace of the fastest undivided engine among `candidates` or, where one that was not
  // measured may be faster, of what the real library's heuristics rank first.
  size_t NeedOfChoice(const LegacyKernel& kernel, const cudnn::Descriptors& descriptors,
                      const std::vector<planning::Candidate>& candidates);
  // The answer without measurements: the heuristics' ranking without what the user forbids. None
  // where the user forbids nothing, or nothing is left.
  std::optional<Performances> AnswerUnmeasured(const LegacyKernel& kernel,
                                               const cudnn::Descriptors& descriptors,
                                               size_t limit_bytes);
  // The answer where nothing fits the user's limit: empty where the limit is strict, else none, so
  // that the real library answers.
  std::optional<Performances> NothingFits(const ConvolutionProblem& problem, planning::Cause cause);
  // A promise for the algorithm a caller chose without asking; none, and why, when none is as
  // exact, deterministic and within the limit.
  struct NamedAnswer {
    std::optional<planning::Promise> promise;
    planning::Note why_none = {planning::Cause::kOverLimit, {}};
  };
  NamedAnswer PromiseFor(const LegacyKernel& kernel, const cudnn::Descriptors& descriptors,
                         int algorithm, size_t need_bytes, size_t limit_bytes);
  // Whether such pieces have run in this process and were compared; runs them where they were not.
  planning::Trust Prove(const LegacyKernel& kernel, const planning::Promise& pieces);
  // Sets `bytes` of the budget aside for the kernel's device. Returns false where there is no room.
  bool Assure(const LegacyKernel& kernel, size_t bytes) const;
  // Where nothing undivided fits: the best pieces of one algorithm that keep a promise alone, which
  // have run in this process; then what the real library ranks. Empty where there are none.
  Performances AnswerOfPieces(const LegacyKernel& kernel, const cudnn::Descriptors& descriptors,
                              const tuning::LegacyRows& measured, size_t limit_bytes,
                              size_t caller_bytes);
  // Enters the promises of `offers` into the book. Returns what they report.
  Performances Told(const LegacyKernel& kernel, std::vector<planning::Offer> offers, bool settled);
  // The undivided algorithms of the problem's math type. Their times are only the order in which
  // the real library's heuristics rank them.
  std::vector<planning::Candidate> Ranked(const LegacyKernel& kernel,
                                          const cudnn::Descriptors& descriptors);
  // Tells the workspace budget, while it learns, that the program was told of `algorithm`.
  void NoteAsked(const LegacyKernel& kernel, int algorithm, MathType math);

  // In workspace_plan_answers.cpp, as is all that follows: the answers from a workspace plan. What
  // a caller names with `algorithm`; without one, it asks which to take.
  planning::NamedRequest Named(const LegacyKernel& kernel, std::optional<int> algorithm,
                               size_t limit_bytes) const;
  // The answer to Find and Get: the workspace plan's, then what runs undivided within the limit.
  // None where the file does not name the kernel, or does not hold for it.
  std::optional<Performances> ConfirmedAnswer(const LegacyKernel& kernel, size_t limit_bytes);
  // Enters such a promise into the book for callers of `algorithm`. Returns false when it cannot be
  // kept.
  bool PromiseConfirmed(const LegacyKernel& kernel,
                        const planning::ConfirmedLegacyKernel& confirmed, int algorithm,
                        planning::Promise& promise);

  Process& process_;
};

}  // namespace ucudnn::interposer
