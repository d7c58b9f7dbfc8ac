// What the user's options and the followed workspace plan demand of a kernel: whether and when it
// is measured, which workspace limit holds for it, and whether it may be cut into tiles.
// Thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "convolution/api.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"
#include "interposer/core/kernel_state.h"
#include "interposer/core/workspace_limit.h"
#include "interposer/pinned/followed_plan.h"
#include "interposer/report/reporter.h"
#include "interposer/session/session.h"
#include "interposer/spatial/splitter.h"
#include "planning/decision/decide.h"

namespace ucudnn::interposer {

class KernelRules {
 public:
  // The caller owns all arguments and keeps them alive. `limit` is the process's limit, which the
  // program may change while it runs.
  KernelRules(const Options& options, FollowedPlan& followed_plan, WorkspaceLimit& limit,
              const Splitter& splitter, Reporter& reporter)
      : options_(options),
        followed_plan_(followed_plan),
        limit_(limit),
        splitter_(splitter),
        reporter_(reporter) {}

  const Options& options() const { return options_; }
  Reporter& reporter() const { return reporter_; }
  // Returns whether this process may measure the kernel on the session's device: the user must
  // allow measuring, and no followed workspace plan may name the kernel.
  bool Tunes(const Session& session, const ConvolutionProblem& problem, Api api) const;
  // Returns whether a query may wait until pieces of a kernel are compared with the undivided
  // engine.
  bool MayProve(const Session& session) const {
    return options_.tuning.before_promising && !session.Capturing();
  }
  // Returns whether a query about the kernel waits until the kernel is measured.
  bool MeasuresBeforePromising(const Session& session, const ConvolutionProblem& problem,
                               Api api) const;
  // Returns the part of a workspace limit that kernels may use; exchanges may use the rest.
  size_t KernelPart(size_t limit_bytes) const {
    return limit_bytes - splitter_.ShareOf(limit_bytes);
  }
  // Returns how many bytes of the caller's workspace the user lets each kernel use: 0 under a
  // budget, kNoLimit if the user sets no limit.
  size_t UserLimit(const Session& session) const;
  // Returns the most bytes of ucudnn's workspace that a kernel of the budget may have.
  size_t LimitOf(const WorkspaceBudget& budget) const {
    return std::min(budget.budget_bytes(), limit_.set_bytes());
  }
  // Returns the facts about a kernel that do not depend on the engine that the program names.
  planning::Facts FactsOf(const Session& session, const ConvolutionProblem& problem, Api api) const;
  BatchSizePolicy policy() const { return options_.policy; }
  // Returns the purpose for which the kernel may be cut into tiles. `need_bytes` is the workspace
  // of the undivided engine that the program would run. Under one budget, kToFit only means that
  // nothing forbids tiles: planning::MayMeasureTiles decides whether the kernel's share demands
  // them.
  planning::TileUse UseOfTiles(const Session& session, const ConvolutionProblem& problem,
                               size_t need_bytes) const;
  // Returns false if UseOfTiles would certainly return kNone. Needs no ConvolutionProblem. `span`
  // is the number of elements that an image of x spans or, if that is larger, the number that an
  // image of y spans.
  bool MayUseTiles(const Session& session, double span, size_t need_bytes) const;
  // A convolution is vast (planning::IsVast) if its images span more elements than this.
  int64_t most_span() const { return most_span_; }
  // To be called before the first call, by tests only.
  void set_most_span(int64_t most) { most_span_ = most; }
  planning::PromiseRequest RequestFor(const ConvolutionProblem& problem, size_t limit_bytes) const {
    return planning::RequestFor(problem, limit_bytes, options_.deterministic);
  }
  // Returns whether every call of a divided kernel is compared with the undivided call.
  bool Checks() const { return options_.check; }
  // Returns whether the user wants kernels to follow a workspace plan.
  bool Follows() const { return options_.mode == Mode::kOn && !options_.workspace_plan.empty(); }
  // Returns the workspace plan that the user wants the kernel to follow; null if there is none. If
  // the plan does not name the kernel, reports that once.
  FollowedPlan* PlanFor(const Session& session, const ConvolutionProblem& problem, Api api) const;
  // Returns the number of calls after which the kernel is decided about anew. The kernel has had
  // `calls` calls, and `when` is Decision::look_again of its latest decision. `tunes` says that
  // this process measures the kernel.
  long CallsUntil(planning::When when, long calls, bool tunes) const;

 private:
  planning::TileConditions ConditionsOfTiles(const Session& session, size_t need_bytes) const;
  // Returns whether ucudnn has no workspace for the session's kernels, because the session's device
  // has no part in the total workspace.
  bool LacksWorkspace(const Session& session) const {
    return options_.total_workspace && session.budget() == nullptr;
  }

  const Options& options_;
  FollowedPlan& followed_plan_;
  WorkspaceLimit& limit_;
  const Splitter& splitter_;
  Reporter& reporter_;
  int64_t most_span_ = kMostViewSpan;
};

}  // namespace ucudnn::interposer
