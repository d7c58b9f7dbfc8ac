// The convolutions of one device under one workspace budget (UCUDNN_TOTAL_WORKSPACE, or the total
// of a workspace plan): the calls that were observed, the division of the budget, and the memory
// that the division needs. Thread-safe. Once the network is known and the memory of its kernels is
// ready, a call outside captures takes the lock in three cases only: its kernel is decided about,
// its owner remembers no segment that is large enough, or workspace must be assured.
//
// The functions that prepare, reserve and give memory, and their helpers, are defined in
// workspace_budget_memory.cpp; the functions that learn the network, divide and report are defined
// in workspace_budget.cpp.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "convolution/api.h"
#include "convolution/problem.h"
#include "cuda/driver.h"
#include "interposer/budget/arena.h"
#include "interposer/budget/kernel_sequence.h"
#include "interposer/core/kernel_state.h"
#include "options/options.h"
#include "planning/network_division.h"
#include "planning/preferred_solver.h"
#include "planning/workspace_plan.h"

namespace ucudnn::interposer {

// A kernel of the network. `api`, `problem` and `plan` identify it. A kernel of the legacy API
// includes all calls of a problem, and `algorithm` is the algorithm that the program named last. A
// kernel of the graph API is one execution plan; other plans may have the same problem.
struct BudgetKernel {
  Api api = Api::kLegacy;
  ConvolutionProblem problem;
  uint64_t plan = 0;  // PlanState::number; 0 in the legacy API
  int algorithm = 0;  // only in the legacy API
  KernelUse use;
};

class WorkspaceBudget {
 public:
  // `budget_bytes` is divided among the kernels; kernels without a share may use the rest. The
  // caller owns `driver`, `context` and `workspace_plan`, and keeps them alive. `solver` is the
  // path of the GLPK plug-in; empty: the exact solver. `workspace_plan` is a workspace plan with a
  // total, which defines the network; null: the network is learned.
  WorkspaceBudget(const cuda::Driver& driver, CUcontext context, size_t budget_bytes,
                  WorkspaceDivision division, const std::string& solver = {},
                  const planning::WorkspacePlan* workspace_plan = nullptr);

  CUcontext context() const { return context_; }
  size_t budget_bytes() const { return budget_bytes_; }
  WorkspaceDivision division() const { return division_; }
  void Open(const void* handle);
  // Close is to be called before `handle` is destroyed. Closed is to be called afterwards, with the
  // result of Close, because destroying the handle waits for the device. `lane` names the lane that
  // ends with the handle; null: no lane ends.
  uint64_t Close(const void* handle, const void* lane = nullptr);
  void Closed(uint64_t leave);

  // To be called when the program asks about a kernel, or runs it outside captures. If Run returns
  // anything but kNotYet, the caller must divide.
  void Ask(const BudgetKernel& kernel);
  KernelSequence::Progress Run(const BudgetKernel& kernel, const ArenaOwner& owner);
  // Ends learning. Returns how much is known, as Run does. Returns kNotYet if learning ended
  // before. Returns kAsked if kernels were asked about and none has run; learning then continues.
  // Fails if no kernel is known.
  Result<KernelSequence::Progress> EndLearning();
  bool learning() const { return learning_.load(std::memory_order_acquire); }

  // Returns Ok if these handles may become one lane. In a lane, the owner of the handles' calls is
  // the lane's name instead of the handle. `owners` lists the handles, and the lanes to which they
  // belong already (null: no lane). Fails if one of the owners has run a call.
  Status MayOrder(std::initializer_list<const void*> owners);

  // Returns the kernels that are known so far.
  std::vector<BudgetKernel> Kernels();
  // Divides the budget among `kernels`. If choices[i] is empty, kernels[i] gets no share. If the
  // device has too little memory, halves the budget until the memory suffices. REQUIRES: Run or
  // EndLearning has returned `known`, and learning() is false unless `known` is kAsked.
  Status Divide(const std::vector<BudgetKernel>& kernels,
                std::vector<std::vector<Configuration>> choices, KernelSequence::Progress known);
  // Ends learning after dividing has failed. Kernels use the budget without shares.
  void Stop() noexcept;

  // Increases whenever the division changes. Decisions of an earlier epoch must be made anew.
  int epoch() const { return epoch_.load(std::memory_order_acquire); }
  // A kernel's number, and the bytes that the kernel may use: its share, or the part of the budget
  // that all shares leave free.
  struct Share {
    int kernel = 0;
    size_t bytes = 0;
  };
  Share ShareOf(const BudgetKernel& kernel, const ArenaOwner& owner);

  // Returns whether the division waits for memory that is still in use. If so, a thread that may
  // allocate calls SettleNow.
  bool waiting() const { return waiting_.load(std::memory_order_acquire); }
  void SettleNow();

  // To be called if cuDNN contradicts the workspace plan's entry of this legacy kernel. From then
  // on the kernel is treated as if the workspace plan did not name it.
  void Drop(const ConvolutionProblem& problem);

  // Memory for one call. Empty if other calls use the memory, if no memory is left, or if the
  // OwnedPart that was passed belongs to an earlier division. A `lent` segment must be given back.
  struct Segment {
    Arena::Segment memory;
    bool lent = false;
  };
  // Takes a segment for work that the caller is about to enqueue on `stream`.
  Segment Take(const ArenaOwner& of, const OwnedPart& part, CUstream stream);
  // Increases when a segment that an owner may remember is given up.
  uint64_t generation() const { return arena_.generation(); }
  void GiveBack(const Arena::Segment& memory, CUstream stream) { arena_.GiveBack(memory, stream); }
  Arena::Segment TakeForCapture(const cuda::Capture& capture, const ArenaOwner& owner,
                                const OwnedPart& part);
  // Sets at least `bytes` of the budget aside. From then on every call can get them by TakeAssured.
  // Returns false if the budget or the device leaves too little memory.
  bool Assure(size_t bytes);
  size_t assured_bytes() const { return arena_.assured_bytes(); }
  // Lends some of the assured workspace to a call that cannot run without workspace.
  Segment TakeAssured(const ArenaOwner& owner, size_t bytes, CUstream stream);
  // Returns the owner of the segment that `kernel` uses when `owner` runs it: the lane itself, or
  // the kernel on the lane. With a workspace plan, returns the owner of the kernel's segment in
  // that plan: on this lane or, if the plan says that the lanes' calls are ordered, on all lanes.
  ArenaOwner SlotOwner(ArenaOwner owner, int kernel) const;

  // The budget's figures for the report. summary() sets all members of ReportedBudget except
  // total_bytes, division and other_devices. `kernels` counts the kernels that have a share or,
  // with a workspace plan, the plan's kernels that have run. total_workspace_bytes is the memory
  // that the budget has on the device. If no handle is left, it is the most memory that the budget
  // had when a handle was destroyed.
  struct Summary : ReportedBudget {
    size_t shares_bytes = 0;  // sum of all shares' segments
    bool asked_only = false;  // divided among kernels that were asked about but have not run
  };
  Summary summary() const;
  // Returns the bytes that ucudnn holds on the device now.
  size_t bytes() const { return arena_.bytes(); }

 private:
  int NumberOf(const BudgetKernel& kernel) UCUDNN_REQUIRES(mutex_);
  // Returns whether kernels of the graph API are known. Some of their plans may never run, and
  // plans that were only asked about were not measured for the budget.
  bool HasPlans() const UCUDNN_REQUIRES(mutex_);
  // Divides, and makes the memory ready or notes that it is still in use.
  Status Settle() UCUDNN_REQUIRES(mutex_);
  // Sets the bytes that Settle divides from now on.
  void Lower(size_t budget_bytes) UCUDNN_REQUIRES(mutex_);
  // Ends learning, because the network is known. Returns kRepeated if the caller must divide the
  // budget, or kNotYet if the division among the kernels that were asked about remains valid.
  KernelSequence::Progress Learned() UCUDNN_REQUIRES(mutex_);
  // Makes the division final.
  void Fix() UCUDNN_REQUIRES(mutex_);

  // Returns the workspace plan's segment for `kernel`; null if there is none.
  const planning::WorkspacePlanSegment* PlanSegmentOf(int kernel) const;
  // Implements Take if there is a workspace plan. A kernel of the plan gets its segment, in the
  // size that the plan says; any other kernel gets memory that no segment needs.
  Segment TakePlanSegment(const ArenaOwner& owner, const OwnedPart& part, CUstream stream);
  Arena::Segment TakeShare(const ArenaOwner& owner, const OwnedPart& part, CUstream stream);
  // Returns the index in lanes_ of `owner`'s lane. If `owner` has no lane, returns the index of a
  // lane on the same stream whose handle was destroyed. Returns lanes_.size() if there is no such
  // lane either.
  size_t LaneOf(const ArenaOwner& owner) const UCUDNN_REQUIRES(mutex_);
  void Leave(const void* owner) UCUDNN_REQUIRES(mutex_);
  void WarnBeyondBudget() const;
  // Returns the kernel's index in planned_; -1 if it is not part of the latest division.
  int PlannedAt(int kernel) const UCUDNN_REQUIRES(mutex_);
  void ReadyCapture(size_t bytes) UCUDNN_REQUIRES(mutex_);
  // Reserves memory for the copies of the workspace plan's segment `number` that no owner has yet.
  // `taken` is the number of copies that owners have.
  void KeepUntaken(int number, size_t taken) UCUDNN_REQUIRES(mutex_);

  const CUcontext context_;
  const size_t budget_bytes_;
  const WorkspaceDivision division_;
  const planning::WorkspacePlan* const workspace_plan_;
  Arena arena_;
  std::atomic<bool> learning_ = true;
  std::atomic<bool> waiting_ = false;  // the division waits for memory that is still in use
  std::atomic<bool> fixed_ = false;
  std::atomic<bool> told_short_ = false;
  // True if each kernel of a lane has a segment of its own; false if the kernels of a lane share
  // one.
  std::atomic<bool> by_kernel_;
  std::atomic<int> epoch_ = 0;
  std::unique_ptr<std::atomic<bool>[]> dropped_;  // by number of the kernel in the workspace plan
  mutable Mutex mutex_;
  planning::PreferredSolver solver_ UCUDNN_GUARDED_BY(mutex_);
  KernelSequence sequence_ UCUDNN_GUARDED_BY(mutex_);
  struct Key {
    Key(Api api, const ConvolutionProblem& of, uint64_t plan);
    bool operator==(const Key&) const = default;

    Api api;
    ConvolutionProblem problem;
    uint64_t plan;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return key.problem.Hash() ^ (key.plan * 0x9e3779b97f4a7c15u) ^ static_cast<size_t>(key.api);
    }
  };
  std::unordered_map<Key, int, Hash> numbers_ UCUDNN_GUARDED_BY(mutex_);
  // Numbers of the problems of kernels that ran. Kernels of one problem have one number, whatever
  // their API and plan, so the keys have the legacy API and no plan.
  std::unordered_map<Key, size_t, Hash> problems_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<BudgetKernel> kernels_ UCUDNN_GUARDED_BY(mutex_);  // by number
  std::vector<ArenaOwner> lanes_ UCUDNN_GUARDED_BY(mutex_);
  std::set<const void*> handles_ UCUDNN_GUARDED_BY(mutex_);
  std::set<const void*> ran_ UCUDNN_GUARDED_BY(mutex_);  // handles and lanes that ran a call
  // The most bytes that were held on the device at any destruction of a handle since the first
  // handle was opened.
  size_t held_bytes_ UCUDNN_GUARDED_BY(mutex_) = 0;
  size_t held_capture_bytes_ UCUDNN_GUARDED_BY(mutex_) = 0;
  // The members from here to capture_ready_ belong to the latest division.
  std::vector<int> planned_ UCUDNN_GUARDED_BY(mutex_);  // numbers of the divided kernels
  std::vector<planning::NetworkKernel> planned_kernels_ UCUDNN_GUARDED_BY(mutex_);
  size_t planned_budget_ UCUDNN_GUARDED_BY(mutex_) = 0;
  planning::DividedNetwork divided_ UCUDNN_GUARDED_BY(mutex_);
  bool solved_ UCUDNN_GUARDED_BY(mutex_) = false;  // divided_ is a division of planned_budget_
  // True if the kernels were asked about but have not run. It is then unknown which lanes will run
  // them, and each kernel has a share that it may use on any lane.
  bool asked_only_ UCUDNN_GUARDED_BY(mutex_) = false;
  // Bytes that the division leaves for a capture.
  size_t capture_bytes_ UCUDNN_GUARDED_BY(mutex_) = 0;
  // True once memory for a capture was requested, even if there was none; false again when no
  // handle is left.
  bool capture_ready_ UCUDNN_GUARDED_BY(mutex_) = false;
  // The kernels of the workspace plan that have run or were asked about.
  std::set<int> met_ UCUDNN_GUARDED_BY(mutex_);
  struct SegmentUse {
    int kernels = 0;        // number of kernels in the segment
    size_t taken = 0;       // number of copies that owners have
    size_t kept_bytes = 0;  // bytes that are reserved for copies that no owner has yet
  };
  std::vector<SegmentUse> uses_ UCUDNN_GUARDED_BY(mutex_);
  size_t kept_bytes_ UCUDNN_GUARDED_BY(mutex_) = 0;  // sum over uses_
};

// Returns budget->epoch(); 0 if `budget` is null.
inline int EpochOf(const WorkspaceBudget* budget) {
  return budget == nullptr ? 0 : budget->epoch();
}

}  // namespace ucudnn::interposer
