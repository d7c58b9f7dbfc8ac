// The application's calls of cuDNN's graph API. Every function answers as the real one does. If
// something fails inside ucudnn before a plan's promise is given, the plan stays unchanged. If
// something fails later, an undivided engine runs within the promise, provided that such an engine
// was found. Thread-safe. Functions are defined in graph_plans.cpp unless a comment names another
// file.
#pragma once

#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "interposer/budget/budgets.h"
#include "interposer/core/capacity.h"
#include "interposer/graph/descriptor_shadows.h"
#include "interposer/graph/graph_kernel.h"
#include "interposer/graph/kept_promises.h"
#include "interposer/graph/plan_state.h"
#include "interposer/graph/variant_packs.h"
#include "interposer/session/address_table.h"
#include "interposer/session/sessions.h"
#include "interposer/spatial/splitter.h"

namespace ucudnn::interposer {

class GraphPlans : public DivisionChoices {
 public:
  // The caller owns all arguments and keeps them alive. The store of `kernels` keeps promises for
  // later processes; if there is none, promises are forgotten when this process ends.
  GraphPlans(const SplitContext& parts, Budgets& budgets, tuning::MeasuredKernels& kernels,
             const KernelRules& rules)
      : options_(rules.options()),
        functions_(parts.functions),
        sessions_(parts.sessions),
        budgets_(budgets),
        splitter_(parts.splitter),
        kernels_(kernels),
        rules_(rules),
        reporter_(rules.reporter()),
        promises_(kernels.store()) {
    refused_.decision.action = planning::CallAction::kRefusal;
  }
  GraphPlans(const GraphPlans&) = delete;
  GraphPlans& operator=(const GraphPlans&) = delete;
  ~GraphPlans() override { delete plans_.load(); }

  cudnnStatus_t Create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor);
  cudnnStatus_t Destroy(cudnnBackendDescriptor_t descriptor);
  // Initializes a descriptor again, with the same type. cuDNN deprecates this function.
  cudnnStatus_t Initialize(cudnnBackendDescriptor_t descriptor);
  cudnnStatus_t Set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, int64_t count, const void* values);
  cudnnStatus_t Get(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, int64_t requested, int64_t* count,
                    void* values);
  cudnnStatus_t Finalize(cudnnBackendDescriptor_t descriptor);
  cudnnStatus_t Execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                        cudnnBackendDescriptor_t pack);
  // Sets *bytes to the workspace that `plan` needs for the shapes of `pack`. cuDNN has this
  // function since 9.23.
  cudnnStatus_t WorkspaceSize(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                              cudnnBackendDescriptor_t pack, size_t* bytes);
  // Fills `graph` with a row of child graphs, one for each piece of a divided plan. If the pieces
  // cannot become native graphs, uses the undivided plan that keeps the promise. This function and
  // UpdateCudaGraph are defined in native_graphs.cpp.
  cudnnStatus_t PopulateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack, cudaGraph_t graph);
  cudnnStatus_t UpdateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                cudnnBackendDescriptor_t pack, cudaGraph_t graph);

  // ExecuteUndivided and PopulateUndivided are called when host memory is out. They use the
  // undivided plan that keeps the promise, and allocate nothing.
  cudnnStatus_t ExecuteUndivided(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                 cudnnBackendDescriptor_t pack) noexcept;
  // PopulateUndivided is defined in native_graphs.cpp.
  cudnnStatus_t PopulateUndivided(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack, cudaGraph_t graph) noexcept;

  std::vector<Configuration> ChoicesOf(const DivisionQuestion& question) override;

  // Sets how many plans are remembered, so that tests reach the bound. To be called before the
  // first plan is made.
  void set_most_kernels(size_t most) { most_kernels_ = most; }

 private:
  // The context, the user's limit, and the plan's JSON.
  using Key = std::tuple<CUcontext, size_t, std::string>;

  using Plans = AddressTable<PlanState>;

  // For a process whose calls are split: finalizes a descriptor other than a pack. Plans of
  // pointwise operations run on this rank alone, convolutions run over all ranks, and all other
  // plans are refused with a message that names the operation. FinalizeSplit, ExecuteSplit and
  // IsRefusedNative are defined in split_plans.cpp.
  cudnnStatus_t FinalizeSplit(cudnnBackendDescriptor_t descriptor);
  class OwnSplitCall;
  cudnnStatus_t ExecuteSplit(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                             cudnnBackendDescriptor_t pack);
  // Returns whether the plan may not become a native CUDA graph in a process whose calls are split,
  // and reports the refusal. Plans of pointwise operations are not refused.
  bool IsRefusedNative(cudnnBackendDescriptor_t plan);

  // Turns the undivided plan that keeps the promise into a native graph. Defined in
  // native_graphs.cpp.
  cudnnStatus_t PopulateAsOne(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                              cudnnBackendDescriptor_t pack, cudaGraph_t graph) noexcept;

  // Forgets a descriptor that is destroyed or initialized again. Returns its shadow; none for a
  // pack.
  std::optional<DescriptorShadow> Forget(cudnnBackendDescriptor_t descriptor);
  PlanState* FindPlan(cudnnBackendDescriptor_t plan) const;
  // Makes `state` the state of the plan. If the table is full, reports that and returns false.
  bool Enter(cudnnBackendDescriptor_t plan, PlanState& state);
  // Calls run(whole), where `whole` is the plan with which the real library computes the whole
  // mini-batch: the substitute if there is one, otherwise `plan`. Returns NOT_SUPPORTED if only
  // pieces keep the promise. `state` is the plan's state; null: it has none.
  template <typename Run>
  static cudnnStatus_t WithUndivided(PlanState* state, cudnnBackendDescriptor_t plan,
                                     const Run& run) {
    const cudnnBackendDescriptor_t whole = state != nullptr ? state->Undivided(plan) : plan;
    if (whole == nullptr) return CUDNN_STATUS_NOT_SUPPORTED;
    if (whole == plan) return run(plan);
    const MutexLock lock(*state->executing);
    return run(whole);
  }
  // Returns the session of `handle`; null if none is open or host memory is out. Opens the session
  // if the state's schedule needs one.
  Session* SessionOf(cudnnHandle_t handle, const PlanState& state) const noexcept;
  // Counts a call of the plan on `handle`, whose session may be null.
  void Count(Session* session, cudnnHandle_t handle, const PlanState& state) const;
  // Executes the plan on this rank alone.
  cudnnStatus_t ExecuteHere(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                            cudnnBackendDescriptor_t pack);
  // Returns the convolution call that executing the plan makes, with its fused operands in `fused`;
  // none if the pack lacks an operand.
  static std::optional<cudnn::ConvolutionCall> CallOf(cudnnHandle_t handle, const PlanState& state,
                                                      const VariantPack& operands,
                                                      cudnn::FusedPointers& fused);
  cudnnStatus_t RunPieces(Session* session, cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                          cudnnBackendDescriptor_t pack, PlanState& state);
  // Returns the workspace that a plan of this configuration would report; none if the plan would
  // report its own need.
  std::optional<size_t> PromiseOf(cudnnBackendDescriptor_t configuration);
  // Tells state.budget that the plan is about to run. REQUIRES: state.budget is not null.
  void Follow(cudnnHandle_t handle, const PlanState& state);

  // Answers a query for the engine's behavior notes. Omits the note that says that native CUDA
  // graphs are supported, unless KeepsNativeSupport returns true. The functions from here to
  // PopulatePieces are defined in native_graphs.cpp.
  cudnnStatus_t BehaviorNotes(cudnnBackendDescriptor_t engine, cudnnBackendAttributeType_t type,
                              int64_t requested, int64_t* count, void* values);
  bool KeepsNativeSupport(const DescriptorShadow& engine);
  // Returns the same call as CallOf, for a native graph of the pieces; none if pieces cannot
  // replace the plan in a native graph.
  std::optional<cudnn::ConvolutionCall> NativeCall(cudnnHandle_t handle, const PlanState& state,
                                                   cudnnBackendDescriptor_t pack,
                                                   cudnn::FusedPointers& fused);
  // Fills `graph` with a row of child graphs, one for each piece. Returns false if that failed;
  // `graph` is then unchanged.
  bool PopulatePieces(cudnnHandle_t handle, PlanState& state, cudnnBackendDescriptor_t pack,
                      cudaGraph_t graph);

  // Decides about a plan that is being finalized. Returns null if the plan stays as it is. In a
  // process whose calls are split, plans after the first most_kernels_ are decided about, too, but
  // never measured. The functions from here on, and ChoicesOf, are defined in plan_decision.cpp.
  PlanState* Decide(cudnnBackendDescriptor_t plan, const DescriptorShadow& shadow);
  // Decides about a plan that has no state yet, and publishes its state.
  PlanState* DecideFirst(const GraphKernel& kernel, Key key);
  // Records why the plan stays as it is. Returns null, or &refused_ if a strict limit or
  // determinism forbids the plan.
  PlanState* LeaveAlone(cudnnBackendDescriptor_t plan, size_t limit_bytes, const std::string& why);
  // Returns whether the user's options may forbid plans.
  bool ForbidsSome() const { return options_.deterministic || options_.strict_limit; }
  // Does the work of LeaveAlone for a plan that cannot be remembered, because most_kernels_ plans
  // are remembered already. Records nothing if the user's options forbid nothing.
  PlanState* LeaveUnremembered(cudnnBackendDescriptor_t plan, size_t limit_bytes);
  // Decides anew about `state`, which is due. Returns the state that replaces `state`, or `state`
  // itself if it stays in force.
  PlanState* Improve(cudnnHandle_t handle, PlanState& state);
  GraphKernel KernelOf(const PlanState& state, Session& session, cudnnHandle_t handle) const;
  // Plans keep their number when Improve replaces their state. Returns the earliest state with this
  // number. REQUIRES: some plan has this number.
  const PlanState* FindNumbered(uint64_t number);
  GraphAnswers AnswersAbout(const GraphKernel& kernel) {
    return {kernels_, rules_, reporter_, kernel, former_, promises_};
  }
  // Returns the facts for a decision about `kernel`. If there is a budget, sets `part.kernel` to
  // the kernel's number in the budget. `earlier` is the state in force; null when the plan is
  // finalized.
  planning::Facts FactsOf(const GraphKernel& kernel, GraphAnswers& steps, const PlanState* earlier,
                          OwnedPart& part);
  std::unique_ptr<PlanState> Make(const GraphKernel& kernel, GraphAnswers& steps,
                                  const PlanState* earlier, Lifecycle& life);

  std::shared_ptr<const LentConfigurations> Lend(const ListedConfigurations& list) {
    return std::make_shared<LentConfigurations>(shadows_, functions_, list);
  }

  const Options& options_;
  const cudnn::Functions& functions_;
  Sessions& sessions_;
  Budgets& budgets_;
  Splitter& splitter_;
  tuning::MeasuredKernels& kernels_;
  const KernelRules& rules_;
  Reporter& reporter_;
  KeptPromises promises_;
  // The state of all plans that the user's options forbid.
  PlanState refused_;
  DescriptorShadows shadows_;
  std::atomic<Plans*> plans_ = nullptr;  // null until the first plan is decided about
  FormerSubstitutes former_;
  size_t most_kernels_ = kMostKernels;  // how many plans are remembered
  Mutex mutex_;
  // A null state means that plans with this key stay unchanged. States never change their address.
  std::map<Key, std::unique_ptr<PlanState>> states_ UCUDNN_GUARDED_BY(mutex_);
  // The state with number i + 1 is at index i; null: no plan has this number.
  std::vector<const PlanState*> numbered_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<PlanState>> improved_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::interposer
