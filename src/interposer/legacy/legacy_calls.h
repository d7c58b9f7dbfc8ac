// The application's calls of cuDNN's legacy convolution API. Every function answers as the real one
// does. Thread-safe. Functions are defined in legacy_calls.cpp unless a comment names another file.
#pragma once

#include <optional>
#include <vector>

#include "cudnn/convolution_call.h"
#include "interposer/budget/budgets.h"
#include "interposer/legacy/legacy_kernel.h"
#include "interposer/legacy/promise_book.h"
#include "interposer/session/call_state.h"
#include "interposer/session/sessions.h"
#include "interposer/spatial/splitter.h"
#include "planning/decision/offers.h"

namespace ucudnn::interposer {

class LegacyCalls : public DivisionChoices {
 public:
  // The caller owns all arguments and keeps them alive. `limit` is lowered when callers seem to
  // lack memory.
  LegacyCalls(const SplitContext& parts, Budgets& budgets, WorkspaceLimit& limit,
              PromiseBook& promises, const KernelRules& rules, LegacyTuner& tuner)
      : options_(rules.options()),
        functions_(parts.functions),
        sessions_(parts.sessions),
        budgets_(budgets),
        splitter_(parts.splitter),
        limit_(limit),
        promises_(promises),
        rules_(rules),
        reporter_(rules.reporter()),
        tuner_(tuner) {}

  // Runs a convolution. In a process whose calls are split, the call is this rank's part of a
  // larger convolution.
  cudnnStatus_t Convolve(const cudnn::ConvolutionCall& call);

  // Answers a query for a workspace size by setting *bytes. This function, FindAlgorithms and
  // GetAlgorithms are defined in queries.cpp.
  cudnnStatus_t WorkspaceSize(Operation operation, cudnnHandle_t handle,
                              const cudnn::Descriptors& descriptors, int algorithm, size_t* bytes);
  using Performances = std::vector<cudnn::AlgorithmPerformance>;
  // Returns the answer to cudnnFindConvolution*Algorithm(Ex), best first; none if the real library
  // must answer. `caller_bytes` is the workspace that was passed to ...Ex; none for the function
  // without Ex.
  std::optional<Performances> FindAlgorithms(Operation operation, cudnnHandle_t handle,
                                             const cudnn::Descriptors& descriptors,
                                             std::optional<size_t> caller_bytes);
  // Returns the answer to cudnnGetConvolution*Algorithm_v7, best first; none if the real library
  // must answer. `caller_bytes` is the caller's limit, if there is one.
  std::optional<Performances> GetAlgorithms(Operation operation, cudnnHandle_t handle,
                                            const cudnn::Descriptors& descriptors,
                                            std::optional<size_t> caller_bytes = std::nullopt);

  std::vector<Configuration> ChoicesOf(const DivisionQuestion& question) override;
  // True for kernels that use assured workspace, because they cannot run without workspace.
  bool IsAssured(const BudgetKernel& kernel, const Session& session) override;

 private:
  // Runs the call on this rank alone.
  cudnnStatus_t ConvolveHere(const cudnn::ConvolutionCall& call);
  cudnnStatus_t ConvolveSplit(const cudnn::ConvolutionCall& call);
  // Runs a call as planning::DecideUnplanned says. Allocates nothing.
  cudnnStatus_t ConvolveUnplanned(const Session& session, const CallKey& key,
                                  const cudnn::ConvolutionCall& call);
  class Fallbacks;
  // Returns the kind of a call; none if ucudnn leaves the call unchanged.
  std::optional<CallKind> KindOf(const cudnn::ConvolutionCall& call,
                                 const ConvolutionProblem& problem) const;
  // Returns whether a decision may be kept for a call that its session has not seen before.
  bool MayRemember(const Session& session, const CallKey& key);
  // Returns whether calls with this key need a decision to run at all, because only pieces, or only
  // the named algorithm, keep their promise.
  bool NeedsPlan(const Session& session, const CallKey& key) const;

  // Decides about a call, and keeps the decision in its session. `earlier` is the decision in
  // force; null at the first call. Returns null if no decision was kept; the call then runs
  // unchanged. This function, FactsOf, NoteScarceWorkspace and ChoicesOf are defined in
  // call_decision.cpp.
  CallState* Decide(const cudnn::ConvolutionCall& call, Session& session, const CallKey& key,
                    CallState* earlier);
  planning::Facts FactsOf(const cudnn::ConvolutionCall& call, const LegacyKernel& kernel,
                          const CallKey& key);
  // Lowers a limit that was computed from free memory. The reason: a caller that passes less
  // workspace than was promised has probably failed to allocate the promised size. The new limit is
  // at least half of the promise.
  void NoteScarceWorkspace(const PromiseKey& key, size_t passed_bytes);

  // Returns the kernel that a query is about; none if nothing can be promised for it. The functions
  // from here to NoteAsked are defined in queries.cpp.
  std::optional<LegacyKernel> QueriedKernel(Operation operation, cudnnHandle_t handle,
                                            const cudnn::Descriptors& descriptors);
  // Returns whether `measured` shows which undivided engine is the fastest. Also returns true if
  // `measured` has undivided engines and nothing more will be measured.
  bool Compares(const LegacyKernel& kernel, const tuning::LegacyRows& measured);
  // Returns the limit under which the kernel is measured: `limit_bytes` (the limit for the caller's
  // workspace) or, under a budget, the limit of the budget.
  size_t MeasuredLimit(const LegacyKernel& kernel, size_t limit_bytes) const;
  // Returns the answer from measurements. Each pair of algorithm and math type that fits is listed
  // once: undivided or, if that is faster, divided. Adds the promises of the answer to promises_.
  // Empty if nothing fits. Under a budget, the answer has the algorithms that an engine without
  // workspace can replace.
  Performances AnswerWithin(const LegacyKernel& kernel, const cudnn::Descriptors& descriptors,
                            const tuning::LegacyRows& measured, size_t limit_bytes);
  // Returns grids of tiles that compute with the problem's own math type; empty if tiles may not
  // replace `candidates`. `need_bytes` is the workspace of the undivided engine that the program
  // would run.
  planning::Tilings FindTilings(const LegacyKernel& kernel,
                                const std::vector<planning::Candidate>& candidates,
                                size_t need_bytes, const planning::PromiseRequest& request);
  // Like FindTilings, but for a kernel that may use `part_bytes` of one budget.
  planning::Tilings TilingsInBudget(LegacyKernel kernel,
                                    const std::vector<planning::Candidate>& candidates,
                                    size_t need_bytes, size_t part_bytes);
  // Returns the workspace of the fastest undivided engine among `candidates`. If an unmeasured
  // engine may be faster, returns at least the workspace of the engine that the real library's
  // heuristics rank first.
  size_t NeedOfChoice(const LegacyKernel& kernel, const cudnn::Descriptors& descriptors,
                      const std::vector<planning::Candidate>& candidates);
  // Returns the answer without measurements: the heuristics' ranking, reduced to engines that fit
  // `limit_bytes` and that the user's options allow. Returns none if the options forbid nothing, or
  // if the caller's limit is the reason that no engine is left. If the user's options leave no
  // engine, returns the result of NothingFits.
  std::optional<Performances> AnswerUnmeasured(const LegacyKernel& kernel,
                                               const cudnn::Descriptors& descriptors,
                                               size_t limit_bytes);
  // Returns the answer if nothing fits the user's limit: an empty answer if the limit is strict,
  // otherwise none, so that the real library answers.
  std::optional<Performances> NothingFits(const ConvolutionProblem& problem,
                                          planning::FallbackCause cause);
  // The promise for an algorithm that a caller chose without asking. If no engine within the limit
  // is as exact and as deterministic as this algorithm, there is no promise, and `why_none` gives
  // the reason.
  struct NamedAnswer {
    std::optional<planning::Promise> promise;
    planning::Note why_none = {planning::FallbackCause::kOverLimit, {}};
  };
  NamedAnswer PromiseFor(const LegacyKernel& kernel, const cudnn::Descriptors& descriptors,
                         int algorithm, size_t need_bytes, size_t limit_bytes);
  // Runs the pieces and compares their output with the output of `pieces.reference`, unless this
  // process has done so before. Returns how far the pieces are trusted.
  planning::Trust Prove(const LegacyKernel& kernel, const planning::Promise& pieces);
  // Sets aside `bytes` of the budget of the kernel's device. Returns false if there is no budget or
  // it has too little memory left.
  bool Assure(const LegacyKernel& kernel, size_t bytes) const;
  // Returns the answer if no undivided engine fits: the best pieces that all run one algorithm,
  // keep a promise and have run in this process, followed by the real library's ranking. Empty if
  // there are no such pieces.
  Performances AnswerOfPieces(const LegacyKernel& kernel, const cudnn::Descriptors& descriptors,
                              const tuning::LegacyRows& measured, size_t limit_bytes,
                              size_t caller_bytes);
  // Adds the promises of `offers` to promises_. Returns the answer that tells the caller
  // these promises. `settled` says that no better plan can follow.
  Performances Promised(const LegacyKernel& kernel, std::vector<planning::Offer> offers,
                        bool settled);
  // Returns candidates: the undivided algorithms with the problem's math type. Their times are not
  // measured, but are 0, 1, 2, ... in the order of the real library's heuristics. Returns none if
  // the library refuses to rank.
  std::vector<planning::Candidate> Ranked(const LegacyKernel& kernel,
                                          const cudnn::Descriptors& descriptors);
  // If the budget is still learning, tells the budget that the program asked about the kernel.
  // `algorithm` is the algorithm that the query named or that the answer names first.
  void NoteAsked(const LegacyKernel& kernel, int algorithm, MathType math);

  // Describes a caller that names `algorithm` or, if `algorithm` is none, a caller that asks which
  // algorithm to use. The functions from here on answer from a workspace plan and are defined in
  // workspace_plan_answers.cpp.
  planning::NamedRequest Named(const LegacyKernel& kernel, std::optional<int> algorithm,
                               size_t limit_bytes) const;
  // Returns the answer to a Get or Find query: the workspace plan's configuration, then the engines
  // that run undivided within the limit. Returns none if the workspace plan does not name the
  // kernel, or if the library does not confirm the plan's entry.
  std::optional<Performances> ConfirmedAnswer(const LegacyKernel& kernel, size_t limit_bytes);
  // Adds the promise of the workspace plan's configuration to promises_, for callers of
  // `algorithm`. Returns false if the promise cannot be kept.
  bool PromiseConfirmed(const LegacyKernel& kernel,
                        const planning::ConfirmedLegacyKernel& confirmed, int algorithm,
                        planning::Promise& promise);

  const Options& options_;
  const cudnn::Functions& functions_;
  Sessions& sessions_;
  Budgets& budgets_;
  Splitter& splitter_;
  WorkspaceLimit& limit_;
  PromiseBook& promises_;
  const KernelRules& rules_;
  Reporter& reporter_;
  LegacyTuner& tuner_;
};

}  // namespace ucudnn::interposer
