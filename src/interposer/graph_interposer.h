// What happens when the application calls cuDNN's graph API. Every function answers like the
// genuine one; whatever goes wrong inside leaves a plan alone before anything is promised, and runs
// an undivided engine inside the promise afterwards. Part of the Interposer, whose sessions,
// measurements, limits and report it shares. Thread-safe.
#pragma once

#include <cuda.h>

#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cudnn/graph_engines.h"
#include "execution/planned_convolution.h"
#include "interposer/descriptor_shadows.h"
#include "interposer/kept_promises.h"
#include "interposer/network.h"
#include "interposer/plan_table.h"
#include "interposer/report.h"
#include "interposer/session.h"
#include "interposer/variant_packs.h"
#include "planning/pinned_plan.h"
#include "planning/promise.h"
#include "tuning/engine_scope.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::interposer {

class Interposer;

// Plans of equal pieces for native CUDA graphs, which may hold their kernels: they live on.
struct NativePieces {
  cudnn::BackendDescriptor first;    // with the caller's beta
  cudnn::BackendDescriptor further;  // adds; only where gradients of the filter do
};

// What was decided for an execution plan, and for all that are equal to it: the same JSON in the
// same context, under the same limit. Never changed after it was made, but for what is atomic;
// where more is known later, a better one takes its place, while other threads may still run this
// one.
struct GraphDecision {
  std::shared_ptr<const cudnn::GraphTemplate> own;
  CUcontext context = nullptr;
  std::unique_ptr<execution::PlannedConvolution> plan;  // null: the plan runs as it is
  Configuration pieces;                                 // of `plan`
  // By run, where a plan file names others than `own`.
  std::vector<std::shared_ptr<const cudnn::GraphTemplate>> engines;
  std::vector<NativePieces> native;  // by run; made with the first graph
  size_t need_bytes = 0;             // of the plan as it is
  bool leads = false;                // the first of a heuristics list
  size_t limit_bytes = 0;            // the user's
  // The workspace that is reported, and all that is ever used.
  size_t promised_bytes = 0;
  std::optional<planning::EnginePromise> promise;  // where that is less than it needs
  // Set where less was promised than the plan needs: the undivided plan, inside the promise, that
  // runs in its place wherever pieces cannot. The genuine one never runs again.
  cudnn::BackendDescriptor substitute;
  // Where one budget holds for all kernels, of such a plan: the budget's network, the substitute's
  // engine, and what pieces have of the library's workspace, in place of the application's.
  Network* network = nullptr;
  std::shared_ptr<const cudnn::GraphTemplate> other;
  LibraryPart library;
  std::atomic<int> looked_at = -1;  // Network::epoch when it was last taken anew
  CountedKernel* record = nullptr;
  // The coarsest arithmetic of the pieces and what may take their place.
  planning::NumericClass numeric = planning::NumericClass::kDirect;
  bool refused = false;  // over a strict limit, or not deterministic where it has to be
  bool barred = false;   // the pieces were never compared: undivided instead
  // A piece failed, or was found wrong: undivided for ever. One for all that take its place.
  std::shared_ptr<std::atomic<bool>> failed = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> ran = false;      // all pieces ran once, so they may be captured
  std::atomic<bool> looking = false;  // a thread takes it anew
  // The plan's scales as cuDNN's calls have them.
  float alpha = 1, beta = 0;
  double wide_alpha = 1, wide_beta = 0;

  // Calls of its record after which it is taken anew, because more may be known then.
  static constexpr long kFinal = std::numeric_limits<long>::max();
  std::atomic<long> due_at = kFinal;
  std::atomic<GraphDecision*> better = nullptr;  // inside the same promise
  const GraphDecision* first = this;             // that it took the place of

  bool may_divide() const { return plan != nullptr && !barred && !*failed; }
  bool smaller() const { return substitute.get() != nullptr; }
  // A call runs, or becomes a native graph, undivided although `record` says pieces.
  void CountUndivided() const {
    if (pieces.Pieces() > 1) record->undivided_calls.fetch_add(1, std::memory_order_relaxed);
  }
  bool redivided() const { return network != nullptr && looked_at != network->epoch(); }
  GraphDecision* Latest() {
    GraphDecision* latest = this;
    while (GraphDecision* next = latest->better.load(std::memory_order_acquire)) latest = next;
    return latest;
  }
};

class GraphInterposer {
 public:
  // `store`, where promises are kept, may be null.
  GraphInterposer(Interposer& interposer, planning::MeasurementStore* store)
      : i_(interposer), promises_(store) {
    refused_.refused = true;
  }
  GraphInterposer(const GraphInterposer&) = delete;
  GraphInterposer& operator=(const GraphInterposer&) = delete;
  ~GraphInterposer() { delete plans_.load(); }

  cudnnStatus_t Create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor);
  cudnnStatus_t Destroy(cudnnBackendDescriptor_t descriptor);
  // Deprecated: makes a descriptor new, of the same type.
  cudnnStatus_t Initialize(cudnnBackendDescriptor_t descriptor);
  cudnnStatus_t Set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, int64_t count, const void* values);
  cudnnStatus_t Get(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, int64_t requested, int64_t* count,
                    void* values);
  cudnnStatus_t Finalize(cudnnBackendDescriptor_t descriptor);
  cudnnStatus_t Execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                        cudnnBackendDescriptor_t pack);
  // cuDNN 9.23 and newer: what `plan` needs for the shapes of `pack`.
  cudnnStatus_t WorkspaceSize(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                              cudnnBackendDescriptor_t pack, size_t* bytes);
  // native_graphs.cpp: a divided plan becomes a graph of its pieces, one child behind the other;
  // where they cannot become native graphs, the plan does undivided, inside its promise.
  cudnnStatus_t PopulateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack, cudaGraph_t graph);
  cudnnStatus_t UpdateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                cudnnBackendDescriptor_t pack, cudaGraph_t graph);

  // graph_library.cpp: the configurations that a division of the library's workspace may choose
  // from for the kernel of `decision`; none where it is not known how long it takes without.
  std::vector<Configuration> LibraryChoices(const GraphDecision& decision, Session& session,
                                            cudnnHandle_t handle, bool may_measure);

 private:
  // native_graphs.cpp: an engine says that its plans become native graphs only where that holds for
  // what runs in place of the plan, too.
  cudnnStatus_t BehaviorNotes(cudnnBackendDescriptor_t engine, cudnnBackendAttributeType_t type,
                              int64_t requested, int64_t* count, void* values);
  bool KeepsNativeSupport(const DescriptorShadow& engine);
  using Template = std::shared_ptr<const cudnn::GraphTemplate>;
  using Templates = std::vector<Template>;
  using Plans = PlanTable<GraphDecision>;

  // What was known of a descriptor; none of a pack.
  std::optional<DescriptorShadow> Forget(cudnnBackendDescriptor_t descriptor);
  GraphDecision* FindPlan(cudnnBackendDescriptor_t plan) const;
  // What to give the genuine library in place of `plan`.
  cudnnBackendDescriptor_t Substitute(cudnnBackendDescriptor_t plan) const;
  cudnnStatus_t RunPieces(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                          cudnnBackendDescriptor_t pack, GraphDecision& decision);
  // Of a native graph: the operands where pieces may take their place, else null; under the native
  // mutex, makes the pieces' plans, and gives each with its pack to `take`, in their order, while
  // it succeeds.
  const VariantPack* NativeOperands(cudnnHandle_t handle, const GraphDecision& decision,
                                    cudnnBackendDescriptor_t pack);
  Status BuildNative(cudnnHandle_t handle, GraphDecision& decision);
  using TakePiece =
      std::function<cudnnStatus_t(cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)>;
  Status ForEachNative(const GraphDecision& decision, const VariantPack& operands,
                       const TakePiece& take) const;
  // False: `graph` is as it was.
  bool PopulatePieces(cudnnHandle_t handle, GraphDecision& decision, cudnnBackendDescriptor_t pack,
                      cudaGraph_t graph);
  // A configuration's plan.
  Result<cudnn::BackendDescriptor> PlanOf(cudnnBackendDescriptor_t configuration,
                                          cudnnHandle_t handle) const;
  // What it would report.
  std::optional<size_t> PromiseOf(cudnnBackendDescriptor_t configuration);

  // A call of the plan on `handle`.
  void Count(cudnnHandle_t handle, const GraphDecision& decision);

  // graph_decisions.cpp: what is decided when a plan is finalized; null when it is left alone.
  GraphDecision* Decide(cudnnBackendDescriptor_t plan, const DescriptorShadow& shadow);
  struct Met;  // a plan while it is decided about
  // Of a convolution that is left alone because of `why`: null, or that it is refused.
  GraphDecision* Alone(const Met& met, cudnnBackendDescriptor_t plan, const std::string& why);
  std::unique_ptr<GraphDecision> Make(Met& met, KernelRecord& record);
  // Whether the promise's pieces, of the plan's own engine and `others`, compute what the undivided
  // ones do.
  tuning::Trust::Kind Compare(const Met& met, const planning::Promise& promise,
                              const Templates& others, std::string& why);
  // What runs undivided in the plan's place, in `limit_bytes`.
  Result<cudnn::BackendDescriptor> BuildSubstitute(const Met& met, const Template& other,
                                                   size_t limit_bytes) const;
  Status MakePieces(const Met& met, const planning::Promise& promise, const Templates& others,
                    GraphDecision& decision) const;
  void Plan(Met& met, GraphDecision& decision, KernelRecord& record);
  // What is known of `decision` by now, after `calls` of it: the better one that took its place, or
  // itself.
  GraphDecision* Improve(cudnnHandle_t handle, GraphDecision& decision, long calls);
  // GraphDecision::due_at.
  long NextLook(const Met& met, long calls) const;
  void LeaveAlone(const Met& met, const char* cause, const std::string& detail);

  // graph_promises.cpp: the promise within `limit_bytes`, less than the plan needs, or the one that
  // was `promised` before (null: nothing was); none when there is none.
  std::optional<planning::Promise> PromiseWithin(Met& met, const planning::EnginePromise* promised,
                                                 size_t limit_bytes, Template& other,
                                                 std::string& why);
  // Those that may take the plan's place, as exact and deterministic, and run undivided within
  // `limit_bytes`: the plan itself where it fits; the one promised alone; else the first few of the
  // heuristics' list, best first, and the fastest measured one; else any there is. Empty: none.
  Templates FindOthers(const Met& met, const planning::EnginePromise* promised, size_t limit_bytes);
  // The first of them; null: there is none.
  Template FindOther(const Met& met, const planning::EnginePromise* promised, size_t limit_bytes);
  // The best of them, as far as they may be measured.
  Template FindBestOther(Met& met, const planning::EnginePromise* promised,
                         const planning::PromiseRequest& request);
  // Engines by rising time, of those measured on the whole mini-batch within `limit_bytes`.
  std::vector<std::string> MeasuredWhole(const Met& met, size_t limit_bytes) const;
  // `other`, or the engine of that name, where it computes what the plan does, as exactly and
  // deterministically; else null.
  Template Serving(const Met& met, Result<cudnn::GraphTemplate> other) const;
  Template Serving(const Met& met, std::string_view engine) const;
  // `other` on the whole mini-batch, in what the library says that it needs; `otherwise` where it
  // does not say.
  MicroConfiguration UndividedOf(const Met& met, const Template& other, size_t otherwise) const;
  tuning::EngineScope ScopeOf(const Template& own, const Templates& others) const;
  std::vector<planning::Candidate> Candidates(Met& met, const Template& engine,
                                              const planning::PromiseRequest& request);

  // graph_pinned.cpp: what a plan file says of the plan's kernel; null: nothing.
  const planning::PinnedKernel* PinnedKernelOf(const Met& met) const;
  // What a plan that follows the file may use at most, of whose workspace it is.
  size_t PinnedLimit(const Met& met) const;
  // The engines that the file names, one for each run, where the plan may use them; else empty.
  Templates EnginesOfFile(const Met& met, const Configuration& plan) const;
  // `plan` with these engines and the sizes that the library says. An error where they exceed the
  // limit or, with the engines of the file (`as_said`), what the file says.
  Result<Configuration> Confirm(const Met& met, Configuration plan, const Templates& engines,
                                bool as_said, size_t limit_bytes) const;
  struct Pinned {
    planning::Promise promise;
    Templates engines;  // by run
    Template other;     // keeps the promise undivided; the plan's own where that fits
    std::string reason = ", as the plan file says";

    Templates Others() const {
      Templates others = engines;
      others.push_back(other);
      return others;
    }
  };
  // An error says why the file does not hold for the plan.
  Result<Pinned> FindPinned(Met& met, const planning::PinnedKernel& kernel);
  // Whether the file was followed: what was decided then.
  bool FollowFile(Met& met, GraphDecision& decision, KernelRecord& record);

  // graph_library.cpp: one workspace budget for all kernels.
  // What an execution outside captures tells of the network.
  void Learn(cudnnHandle_t handle, const GraphDecision& decision);
  // What the network has for the kernel of `decision`.
  void FindShare(Met& met, const GraphDecision& decision) const;
  // The plan's own engine, and `other` on the whole mini-batch without workspace.
  std::vector<planning::Candidate> LibraryCandidates(Met& met, const Template& other);
  // Of no workspace, in what the network has for it.
  planning::Promise PromiseInLibrary(Met& met, const Template& other);

  // The context, the limit and the plan's JSON.
  using Key = std::tuple<CUcontext, size_t, std::string>;

  Interposer& i_;
  KeptPromises promises_;
  GraphDecision refused_;  // of plans that are left alone, but for what the user forbids
  DescriptorShadows shadows_;
  std::atomic<Plans*> plans_ = nullptr;  // made with the first
  std::mutex native_mutex_;              // of GraphDecision::native
  std::mutex mutex_;                     // of what follows; decisions keep their address
  // Null: left alone.
  std::map<Key, std::unique_ptr<GraphDecision>> decisions_;
  std::vector<std::unique_ptr<GraphDecision>> improved_;
  // Engines that took a plan's place, by the problem's hash: where to look first.
  std::unordered_map<uint64_t, std::vector<int>> others_;
};

}  // namespace ucudnn::interposer
