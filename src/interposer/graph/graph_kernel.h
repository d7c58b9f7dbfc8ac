// An execution plan that is being decided about, and the answers to the questions of its decision.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "cudnn/graph_engines.h"
#include "interposer/core/lifecycle.h"
#include "interposer/graph/descriptor_shadows.h"
#include "interposer/graph/kept_promises.h"
#include "interposer/graph/plan_state.h"
#include "tuning/engine_scope.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::interposer {

struct GraphKernel {
  cudnnHandle_t handle = nullptr;
  Session* session = nullptr;
  EngineTemplate own;
  size_t need_bytes = 0;             // workspace that the application's plan needs
  size_t limit_bytes = 0;            // the user's limit when the plan was finalized
  bool is_heuristics_first = false;  // the plan is the first of a heuristics list
  // The configurations of the heuristics list that still exist, best first; null: there is no list.
  std::shared_ptr<const LentConfigurations> listed;
  bool again = false;        // the plan was decided about before; more may have been measured since
  bool may_measure = false;  // missing measurements may be made now, unless comes_late
  // True if GraphPlans already remembered most_kernels_ plans, its maximum, when this plan was
  // made. Such a plan is never measured.
  bool comes_late = false;

  const ConvolutionProblem& problem() const { return own->convolution.problem; }
  bool is_measured() const { return may_measure && !comes_late; }
  std::span<const cudnnBackendDescriptor_t> configurations() const {
    if (listed == nullptr) return {};
    return listed->all();
  }
};

// The numbers of the engines that became substitutes, by the problem's hash. GraphAnswers::AddAny
// tries these engines first. Thread-safe.
class FormerSubstitutes {
 public:
  std::vector<int> Find(uint64_t problem);
  void Add(uint64_t problem, int engine);

 private:
  Mutex mutex_;
  std::unordered_map<uint64_t, std::vector<int>> engines_ UCUDNN_GUARDED_BY(mutex_);
};

// Makes a finalized execution plan of `configuration`. `session` is the session of `handle`.
Result<cudnn::BackendDescriptor> PlanOf(const Session& session,
                                        cudnnBackendDescriptor_t configuration,
                                        cudnnHandle_t handle);

// Returns whether plans of an engine with these notes can become native CUDA graphs.
bool BecomesNative(const cudnn::EngineNotes& notes);

class GraphAnswers : public DecisionAnswers {
 public:
  // The caller owns all arguments and keeps them alive.
  GraphAnswers(tuning::MeasuredKernels& kernels, const KernelRules& rules, Reporter& reporter,
               const GraphKernel& kernel, FormerSubstitutes& former, KeptPromises& promises)
      : kernels_(kernels),
        rules_(rules),
        reporter_(reporter),
        kernel_(kernel),
        functions_(kernel.session->functions()),
        former_(former),
        promises_(promises),
        known_({kernel.own}) {}

  planning::Rows Answer(const planning::Measure& question) override;
  planning::Tilings Answer(const planning::FindTilings& question) override;
  std::vector<MicroConfiguration> Answer(const planning::FindSubstitutes& question) override;
  planning::Trust Answer(const planning::Compare& question) override;
  planning::BuildOutcome Answer(const planning::Build& question) override;
  planning::KeptPromise Keep(const planning::Decision& decision) override;

  // Applies the workspace plan's `kernel` to this execution plan, in at most `limit_bytes` of
  // workspace (the caller's or, under a budget, ucudnn's). The error says why `kernel` does not
  // hold for this execution plan. Defined in confirmed_kernel.cpp.
  Result<planning::ConfirmedGraphKernel> ConfirmKernel(const planning::WorkspacePlanKernel& kernel,
                                                       size_t limit_bytes);

  // Adds an engine that may become a substitute or compute tiles.
  void Know(EngineTemplate engine) { known_.push_back(std::move(engine)); }
  // Returns the known engine with this name; null if there is none.
  EngineTemplate Find(const EngineId& engine) const;
  // Includes the NumericClass of the plan's own engine.
  std::optional<NumericClass> CoarsestOf(const planning::Decision& decision) override;
  // Returns the plan of the substitute that Answer(Build) built last.
  cudnn::BackendDescriptor TakeSubstitute() { return std::move(substitute_); }
  const EngineTemplates& known() const { return known_; }

 private:
  // Returns the plan's own engine, then the known engines of `undivided` and `configuration`, each
  // once.
  EngineTemplates Used(const Configuration& configuration,
                       const MicroConfiguration& undivided) const;
  tuning::GraphScope ScopeOf(const EngineTemplates& engines) const;
  // Returns the engines that tiles of a vast plan may use: the plan's own engine, then the engines
  // that the heuristics choose for typical tiles.
  const EngineTemplates& EnginesOfTiles();
  // Finds the best division by the existing measurements of the plan's own engine, and compares its
  // output with the undivided output. Is called before missing measurements for `question` are
  // made, so that at least this division may run if time runs out later.
  void CompareKnown(tuning::Question question);
  // The Serving functions return `other`, or the engine named `engine`, as a substitute for the
  // plan. They return null if the substitute cannot be built, computes something else than the
  // plan, or is less exact or less deterministic than the plan.
  EngineTemplate Serving(Result<cudnn::GraphTemplate> other) const;
  EngineTemplate Serving(const EngineId& engine) const;
  // Returns `other` on the whole mini-batch, with the workspace that the library states. Returns
  // none if a plan of `other` cannot be built or needs more than `limit_bytes`.
  std::optional<MicroConfiguration> UndividedOf(const cudnn::GraphTemplate& other,
                                                size_t limit_bytes);
  // Returns the engines that were measured on the whole mini-batch within `limit_bytes`, the
  // fastest first.
  std::vector<EngineId> MeasuredWhole(size_t limit_bytes) const;
  // Adds `other` to the known engines and to `found`. Returns false if `other` is null, does not
  // fit `limit_bytes`, or is in `found` already.
  bool Add(EngineTemplate other, size_t limit_bytes, std::vector<MicroConfiguration>& found);
  void AddAny(size_t limit_bytes, std::vector<MicroConfiguration>& found);

  // Returns the engines that the workspace plan names, one for each run; empty if this execution
  // plan may not use them. Defined in confirmed_kernel.cpp.
  EngineTemplates EnginesOfFile(const Configuration& configuration);
  // Returns `configuration` with `engines`, one for each run, and with the workspace sizes that the
  // library states. Fails if the library states more than the sizes in `configuration`.
  Result<Configuration> ConfirmWithEngines(Configuration configuration,
                                           const EngineTemplates& engines) const;

  tuning::MeasuredKernels& kernels_;
  const KernelRules& rules_;
  Reporter& reporter_;
  const GraphKernel& kernel_;
  const cudnn::Functions& functions_;
  FormerSubstitutes& former_;
  KeptPromises& promises_;
  EngineTemplates known_;  // the plan's own engine is the first
  // Undivided plans of engines that may become substitutes.
  std::map<EngineId, cudnn::BackendDescriptor> undivided_plans_;
  cudnn::BackendDescriptor substitute_;
  EngineTemplates tile_engines_;  // result of EnginesOfTiles; empty: not determined yet
};

}  // namespace ucudnn::interposer
