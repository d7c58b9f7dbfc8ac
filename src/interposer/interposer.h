// What happens when the application calls cuDNN's legacy convolution API (for the graph API see
// graph_interposer.h, which shares all that is below). One object per process, made by shim/; every
// function answers like the genuine one, and whatever goes wrong inside gives the genuine
// behaviour. Thread-safe. Nothing here throws across: callers are the C entry points, which also
// catch.
#pragma once

#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/options.h"
#include "cuda/driver.h"
#include "cudnn/functions.h"
#include "cudnn/legacy_call.h"
#include "interposer/graph_interposer.h"
#include "interposer/lanes.h"
#include "interposer/network.h"
#include "interposer/pinned_kernels.h"
#include "interposer/promise_book.h"
#include "interposer/report.h"
#include "interposer/session.h"
#include "planning/measurement_store.h"
#include "tuning/legacy_kernel.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::interposer {

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

inline constexpr char kPieceFailed[] = "a piece failed; this kernel runs undivided from now on";

using tuning::UsesGraph;

// An undivided engine of the legacy API, as its functions answer it.
cudnn::AlgorithmPerformance PerformanceOf(const MicroConfiguration& micro, MathType math);

// cuDNN serves a bias with identity activation by this algorithm only, and nobody says while asking
// whether such a call will follow: a promise for it must be one that it can keep alone. False when
// it cannot.
bool MakeKeepableAlone(Operation operation, int algorithm,
                       const std::vector<planning::Candidate>& candidates,
                       const planning::PromiseRequest& request, planning::Promise& promise);

class Interposer {
 public:
  // `driver` may be null (no CUDA): then every call is forwarded. `store` may be null; whether
  // processes of other hosts write to it, too, `hosts_share_store` says. All arguments outlive the
  // object.
  Interposer(const Options& options, const cudnn::Functions& functions, const cuda::Driver* driver,
             planning::MeasurementStore* store, bool hosts_share_store = true);

  const cudnn::Functions& functions() const { return functions_; }

  cudnnStatus_t Create(cudnnHandle_t* handle);
  cudnnStatus_t Destroy(cudnnHandle_t handle);
  cudnnStatus_t SetStream(cudnnHandle_t handle, cudaStream_t stream);
  // Before a call on `handle`, whose stream may have been set past us.
  void FollowStream(cudnnHandle_t handle);

  cudnnStatus_t Convolve(const cudnn::LegacyCall& call);

  cudnnStatus_t WorkspaceSize(Operation operation, cudnnHandle_t handle,
                              const cudnn::Descriptors& descriptors, int algorithm, size_t* bytes);

  // The answer to cudnnFindConvolution*Algorithm(Ex): best first, none when the genuine library
  // must answer. `caller_bytes` is the workspace passed to ...Ex, none for the function without.
  std::optional<std::vector<cudnn::AlgorithmPerformance>> FindAlgorithms(
      Operation operation, cudnnHandle_t handle, const cudnn::Descriptors& descriptors,
      std::optional<size_t> caller_bytes);

  // The answer to cudnnGetConvolution*Algorithm_v7, like FindAlgorithms; within `caller_bytes`
  // where the caller names a limit.
  std::optional<std::vector<cudnn::AlgorithmPerformance>> GetAlgorithms(
      Operation operation, cudnnHandle_t handle, const cudnn::Descriptors& descriptors,
      std::optional<size_t> caller_bytes = std::nullopt);
  // The workspace ceiling (kNoLimit: none) of every kernel that is asked about or first called from
  // now on, in place of the options'.
  void SetWorkspaceLimit(size_t bytes);

  // The program orders the work of these handles, on whichever streams: of one budget for all
  // kernels, and of the report. The error says what keeps it from being followed.
  Status DeclareOrder(cudnnHandle_t first, cudnnHandle_t second);
  // Divides the budget of the handle's device among what was run so far: no effect without one.
  Status EndRecording(cudnnHandle_t handle);

  // Rewrites the report file, if one was asked for and this process called a convolution.
  void WriteReport();
  Report& report() { return report_; }
  std::string ReportText();
  GraphInterposer& graph() { return graph_; }
  // What was promised in this process.
  PromiseBook& promises() { return promises_; }
  // The workspace budget of the device that `context` is on; null where there is none, or another
  // context of the device has it.
  Network* NetworkOf(CUcontext context);
  long measured() const { return kernels_.measured(); }

 private:
  friend class GraphInterposer;
  // A problem met on a session.
  struct Kernel {
    ConvolutionProblem problem;
    Session* session = nullptr;
    cudnnHandle_t handle = nullptr;
    bool graph = true;  // graph engines may serve it
  };
  using Measurements = tuning::LegacyAnswer;
  using Answer = std::vector<cudnn::AlgorithmPerformance>;

  // interposer.cpp: handles and calls.
  Session* SessionOf(cudnnHandle_t handle);
  void OpenSession(cudnnHandle_t handle, Session& session);
  int PlatformIndex(const planning::Platform& platform);
  tuning::Device DeviceOf(const Session& session);
  bool Capturing(const Session& session) const;
  // Whose a call is that is about to be counted.
  uint64_t LaneOf(Session& session, cudnnHandle_t handle);
  // One warning for each cause and an entry of the report. `detail` is what differs from kernel to
  // kernel. Called also when pieces are under way: never throws.
  void Fallback(const ConvolutionProblem& problem, std::string_view cause,
                std::string_view detail = {}) noexcept;
  // The same for a kernel that comes when no more are remembered.
  void TooManyKernels() noexcept;
  // Once, in a process of a job: an entry of the report where other ranks may plan otherwise.
  void NoteUnlikeRanks();

  cudnnStatus_t RunPlan(const cudnn::LegacyCall& asked, Session& session, const CallKey& key,
                        Decision& decision);
  // Whether a decision may be kept for a call that was not met before.
  bool MayRemember(const Session& session, const CallKey& key);
  // Undivided, inside what was promised: without memory, or when no more may be remembered.
  cudnnStatus_t ConvolveUnplanned(const cudnn::LegacyCall& call, const Session& session,
                                  const CallKey& key);

  // decisions.cpp: how a call runs that is met for the first time, or again when more is known.
  std::optional<Flavour> FlavourOf(const cudnn::LegacyCall& call,
                                   const ConvolutionProblem& problem) const;
  // `earlier`: the decision taken before, null at the first call.
  Decision* Decide(const cudnn::LegacyCall& call, const Kernel& kernel, const CallKey& key,
                   Decision* earlier);
  // Decision::due_at of what was decided after `calls`, where more may be known later.
  long NextLook(long calls) const;
  // A plan inside what the caller passes, at least as exact and deterministic as the algorithm it
  // names; none when the call had better run as it is. Fills what the report says of it. `settled`
  // becomes false when a later call may know more.
  std::optional<planning::Promise> PlanUnasked(const cudnn::LegacyCall& call, const Kernel& kernel,
                                               const CallKey& key, bool may_measure,
                                               KernelRecord& record, bool& settled);
  // A promise made before all was measured, with the best plan inside it that is known by now.
  planning::Promise Improved(planning::Promise promise, const Kernel& kernel, bool may_measure,
                             bool& settled);

  // Sees to it that `promise`, if it divides, was compared with the undivided output: plans anew
  // while plans turn out wrong. False when nothing could be compared: then the undivided engine
  // runs for now.
  template <typename Plan>
  bool Trusted(const Kernel& kernel, bool may_compare, std::optional<planning::Promise>& promise,
               Plan plan_anew, std::string& why);

  // The promise made ready; the undivided engine alone when that fails, null when neither can be.
  std::unique_ptr<execution::PlannedConvolution> Prepare(const Kernel& kernel,
                                                         const planning::Promise& promise,
                                                         KernelRecord& record);

  // library_workspace.cpp: one workspace budget for all kernels.
  // Workspace that the library brings for one call; given back, where it was lent, behind what the
  // call enqueued.
  class LibraryWorkspace;
  // Before a call runs: what it tells of the network, which is divided once enough is known.
  void Learn(const MetKernel& kernel, Session& session, cudnnHandle_t handle) noexcept;
  void Divide(Network& network, Session& session, cudnnHandle_t handle,
              KernelSequence::Known known);
  // What a kernel of the legacy API may be given.
  std::vector<Configuration> LibraryChoices(const MetKernel& met, Session& session,
                                            cudnnHandle_t handle);
  // Network::SettleNow, but inside a capture.
  void SettleNow(Session& session) noexcept;
  void NoteBudget(const Network& network);
  void NoteBudgets();
  // The program was told of `algorithm`.
  void NoteAsked(const Kernel& kernel, int algorithm, cudnnMathType_t math);
  // The plan in the library's workspace; none where there is no budget, or no engine as exact and
  // deterministic goes without workspace. `told`: what the caller was; none: it did not
  // ask.
  std::optional<planning::Promise> PlanInLibrary(const cudnn::LegacyCall& call,
                                                 const Kernel& kernel,
                                                 const std::optional<planning::Promise>& told,
                                                 bool may_measure, Decision& decision,
                                                 bool& settled);
  planning::PromiseRequest LibraryRequest(const ConvolutionProblem& problem,
                                          const std::vector<planning::Candidate>& candidates,
                                          int algorithm, size_t limit_bytes) const;
  // No kernel's workspace may exceed it.
  size_t LibraryLimit(const Network& network) const;
  // What measurements are for, before anything is promised within `limit_bytes`.
  size_t MeasuredLimit(const Kernel& kernel, size_t limit_bytes) const {
    const Network* const network = kernel.session->network();
    return network == nullptr ? limit_bytes : LibraryLimit(*network);
  }

  // pinned_plans.cpp: what a plan file says.
  // The promise it pins, of no more than `limit_bytes` of whose workspace it is, for callers who
  // name `algorithm` (none: they are yet to be told); none where it pins none, or less exact or
  // deterministic arithmetic than the algorithm's, or than `told` where that told of less.
  std::optional<planning::Promise> PinnedPromise(const Kernel& kernel, std::optional<int> algorithm,
                                                 size_t limit_bytes,
                                                 const std::optional<planning::Promise>& told = {});
  // The answer to Find and Get: that, then what runs undivided within the limit.
  std::optional<Answer> PinnedAnswer(const Kernel& kernel, size_t limit_bytes);
  // Enters such a promise into the book for callers of `algorithm`. False when it cannot be kept.
  bool PromisePinned(const Kernel& kernel, int algorithm, planning::Promise& promise);
  const PinnedKernels::Pinned* FindPinned(const Kernel& kernel);
  // Tells once of a kernel that the file which is followed does not have.
  void NoteUnpinned(const Session& session, const ConvolutionProblem& problem, bool legacy = true);
  // Whether a kernel on the session's device may be measured: not what a plan file has.
  bool Tunes(const Session& session, const ConvolutionProblem& problem, bool legacy = true);

  // measured_engines.cpp: measurements of the kernel at its policy's micro-batches, for what
  // `request` asks; none when the undivided kernel is not among them.
  Measurements Measured(const Kernel& kernel, const planning::PromiseRequest& request,
                        bool may_measure);
  tuning::LegacyKernel Asked(const Kernel& kernel);
  // As the functions of tuning/legacy_kernel.h.
  cudnn::MixedEngines::Templates GraphEnginesOf(const Kernel& kernel, const Configuration& plan);
  Result<planning::NumericClass> CoarsestClass(const Kernel& kernel, const Configuration& plan,
                                               const MicroConfiguration& undivided);
  tuning::Trust Verify(const Kernel& kernel, const Configuration& plan,
                       const MicroConfiguration& undivided, bool may_compare);

  // queries.cpp: what callers are told.
  std::optional<Kernel> Meet(Operation operation, cudnnHandle_t handle,
                             const cudnn::Descriptors& descriptors);
  // True when `measured` tells which engine is the fastest, or will never tell more than it does.
  bool Compares(const Kernel& kernel, const Measurements& measured);
  // Before something is promised: true when the caller may be kept waiting for measurements.
  bool MeasuresBeforePromising(const Session& session, const ConvolutionProblem& problem,
                               bool legacy = true);
  // Somebody wants to read of every kernel, also of those that nothing can be done about.
  bool TellsAll() const { return options_.mode == Mode::kObserve || !options_.report.empty(); }
  // The workspace ceiling of the user's for every kernel; kNoLimit: none.
  size_t UserLimit(const Session& session);
  // Where that limit comes from free memory: it falls, at most to half of what a caller was told
  // who passes less than any promise, because its allocation failed.
  void NoteScarceWorkspace(const PromiseKey& key, size_t passed_bytes);
  planning::PromiseRequest RequestFor(const ConvolutionProblem& problem, size_t limit_bytes) const;
  // The heuristic's ranking cut to what the user allows, where there are no measurements; none
  // where the user demands nothing or nothing is left.
  std::optional<Answer> AnswerUnmeasured(const Kernel& kernel, cudnnHandle_t handle,
                                         const cudnn::Descriptors& descriptors, size_t limit_bytes);
  // What an answer is when nothing fits the user's limit: none (the genuine library's), or an empty
  // one where the limit is strict.
  std::optional<Answer> NothingFits(const ConvolutionProblem& problem, const char* cause);
  // A promise for the algorithm a caller chose without asking; none when none is as exact,
  // deterministic and within the limit.
  std::optional<planning::Promise> PromiseFor(const Kernel& kernel, cudnnHandle_t handle,
                                              const cudnn::Descriptors& descriptors, int algorithm,
                                              size_t need_bytes, size_t limit_bytes);
  // Every algorithm and math type within the limit, best first, each once and at its fastest:
  // undivided or as a promise, which is entered into the book. Empty when none fits. Under one
  // budget for all kernels: those that an engine without workspace can keep.
  Answer AnswerWithin(const Kernel& kernel, const Measurements& measured, size_t limit_bytes);

  const Options& options_;
  const bool hosts_share_store_;
  std::atomic<bool> unlike_ranks_noted_ = false;
  const cudnn::Functions& functions_;
  const cuda::Driver* const driver_;
  tuning::MeasuredKernels kernels_;
  PinnedKernels pinned_;
  tuning::LegacyKernels legacy_;
  std::atomic<size_t> limit_;                  // of the user's; kNoLimit: none
  std::atomic<bool> limit_is_auto_;            // then auto_limit_ is meant
  std::atomic<size_t> auto_limit_ = kNoLimit;  // kNoLimit: not yet computed
  PromiseBook promises_;
  Report report_;
  SessionTable sessions_;
  Lanes lanes_;
  std::mutex platforms_mutex_;
  std::vector<std::unique_ptr<planning::Platform>> platforms_;
  // `handle` is gone, or about to be destroyed: its network, where it has one, and what Close said.
  std::pair<Network*, uint64_t> Leave(cudnnHandle_t handle);
  std::mutex networks_mutex_;
  std::map<CUdevice, std::unique_ptr<Network>> networks_;
  std::mutex report_mutex_;  // one writer of the file at a time
  GraphInterposer graph_;
};

}  // namespace ucudnn::interposer
