// One device's convolutions under one workspace budget (UCUDNN_TOTAL_WORKSPACE): what the program
// was seen to run, how the budget is divided, and the memory behind it. Thread-safe. Once the
// network is known and its memory ready, a call takes no lock here but the first time it asks for
// a segment.
#pragma once

#include <cuda.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/options.h"
#include "convolution/problem.h"
#include "cuda/driver.h"
#include "execution/arena.h"
#include "interposer/kernel_sequence.h"
#include "planning/network_division.h"
#include "planning/pinned_plan.h"
#include "planning/preferred_solver.h"

namespace ucudnn::interposer {

struct GraphDecision;

// A kernel of the network: all legacy calls of a problem, with the algorithm that the program last
// named for it, or an execution plan of the graph API, of a problem that other plans may have too.
struct MetKernel {
  ConvolutionProblem problem;
  int algorithm = 0;
  const GraphDecision* plan = nullptr;  // the first decision about it; null: of the legacy API
  KernelUse use;
};

// What a plan uses of the library's workspace: as which kernel of the network, and by which
// division of it.
struct LibraryPart {
  size_t bytes = 0;
  int kernel = -1;
  int epoch = 0;
};

class Network {
 public:
  // The limit of kernels that nothing was planned for is what the budget has left. `driver`,
  // `context` and `pinned` outlive the object. `solver`: the path of the GLPK plug-in, where it is
  // to divide. `pinned`: a plan file with a total, which the network is known from; null: it is
  // learned.
  Network(const cuda::Driver& driver, CUcontext context, size_t budget_bytes,
          WorkspaceDivision division, const std::string& solver = {},
          const planning::PinnedPlan* pinned = nullptr);

  CUcontext context() const { return context_; }
  size_t budget_bytes() const { return budget_bytes_; }
  WorkspaceDivision division() const { return division_; }
  void Open(const void* handle);
  // `handle` is about to be destroyed, which waits for the device; then Closed is told what Close
  // said.
  uint64_t Close(const void* handle);
  void Closed(uint64_t leave);

  // The program asks about a kernel, or runs it (outside captures). What Run says, the caller sees
  // to: it divides.
  void Ask(const MetKernel& kernel);
  KernelSequence::Known Run(const MetKernel& kernel, const execution::ArenaOwner& owner);
  // Ends learning as Run does: what is known then, kNotYet where that was said before. Where
  // kernels were asked about and none ran, that is kAsked, and learning goes on. An error where
  // there is nothing at all.
  Result<KernelSequence::Known> EndLearning();
  bool learning() const { return learning_.load(std::memory_order_acquire); }

  // The program orders the work of both handles, on whichever streams: from now on they are one
  // lane, with those that either was declared with before. Gives all of its handles and what names
  // it as an owner. An error where one of them has run already.
  struct Lane {
    std::vector<const void*> handles;
    const void* name = nullptr;
  };
  Result<Lane> DeclareOrder(const void* first, const void* second);

  // What is known of the network so far.
  std::vector<MetKernel> Kernels();
  // Divides the budget among those that have choices (of the same position). A budget that the
  // device has no memory for is halved until it has.
  // `known` is what Run said.
  Status Divide(const std::vector<MetKernel>& kernels,
                std::vector<std::vector<Configuration>> choices, KernelSequence::Known known);
  // Ends learning with what there is, where dividing failed.
  void Stop() noexcept;

  // Rises with every division: decisions taken before it are to be taken anew.
  int epoch() const { return epoch_.load(std::memory_order_acquire); }
  // The kernel's number, and how much workspace its plan may use: its share, or what is left.
  struct Share {
    int kernel = 0;
    size_t bytes = 0;
  };
  Share ShareOf(const MetKernel& kernel, const execution::ArenaOwner& owner);

  // The division waits for memory that was still in use: whoever may allocate sees to it.
  bool waiting() const { return waiting_.load(std::memory_order_acquire); }
  void SettleNow();

  // cuDNN contradicts what the plan file says of the legacy kernel: it is as if it were not there.
  void Drop(const ConvolutionProblem& problem);

  // Memory for one call; none when others use it, none is left, or the part is of an earlier
  // division. `lent`: it must be given back.
  struct Segment {
    execution::Arena::Segment memory;
    bool lent = false;
  };
  // For work that is about to be enqueued on `stream`.
  Segment Take(const execution::ArenaOwner& of, const LibraryPart& part, CUstream stream);
  // execution::Arena::generation.
  uint64_t generation() const { return arena_.generation(); }
  void GiveBack(const execution::Arena::Segment& memory, CUstream stream) {
    arena_.GiveBack(memory, stream);
  }
  execution::Arena::Segment TakeForCapture(uint64_t capture, const execution::ArenaOwner& owner,
                                           size_t bytes) {
    return arena_.TakeForCapture(capture, owner, bytes);
  }
  // Whose segment it is: its lane's, or the planned kernel's own on the lane; of a plan file, the
  // segment's on the lane, or everybody's where the file says that its calls are ordered.
  execution::ArenaOwner SlotOwner(execution::ArenaOwner owner, int kernel) const;

  // Of the report.
  struct Summary {
    size_t budget_bytes = 0;   // what was divided: less than the user's where memory was short
    size_t shares_bytes = 0;   // of it, what the division gives out
    size_t held_bytes = 0;     // on the device: now, or before the handles were destroyed
    size_t capture_bytes = 0;  // of those, what captures have or are to have
    size_t kernels = 0;        // that have a share; of a plan file, that were met
    bool divided = false;
    bool asked_only = false;      // among what was asked about, until it ran
    std::optional<bool> optimal;  // proven or not; none: a plan file divided
    const char* solver = "";      // who divided it; empty: nobody, or a plan file
  };
  Summary summary() const;
  // Of the library's memory on the device, now.
  size_t bytes() const { return arena_.bytes(); }

 private:
  int NumberOf(const MetKernel& kernel);
  // Whether plans were met: some may never run, and what was asked about was not measured for it.
  bool HasPlans() const;
  // Under the mutex: divides and makes the memory ready, or learns that it is still in use.
  Status Settle();
  // Under the mutex: from now on so much is divided.
  void Lower(size_t budget_bytes);
  // Under the mutex: all is known. What is left to be done.
  KernelSequence::Known Learned();
  // Under the mutex: the division is final.
  void Fix();

  // The segment of the plan file for `kernel`; null: none.
  const planning::PinnedSegment* PinnedSegmentOf(int kernel) const;
  // Take where a plan file says what is whose: whole segments, and to others what those leave.
  Segment TakePinned(const execution::ArenaOwner& owner, const LibraryPart& part, CUstream stream);
  execution::Arena::Segment TakeShare(const execution::ArenaOwner& owner, const LibraryPart& part,
                                      CUstream stream);
  // Under the mutex, all of these.
  // Where `owner` is among the lanes, or a former handle's lane on its stream; else their number.
  size_t LaneOf(const execution::ArenaOwner& owner) const;
  void Leave(const void* owner);
  // The kernel's place in the latest division; -1: it has none.
  int PlannedAt(int kernel) const;
  void ReadyCapture(size_t bytes);
  // Of the plan file's segment, `taken` copies are somebody's: the others are kept for whoever
  // comes.
  void KeepUntaken(int segment, size_t taken);

  const CUcontext context_;
  const size_t budget_bytes_;
  const WorkspaceDivision division_;
  const planning::PinnedPlan* const pinned_;
  execution::Arena arena_;
  std::atomic<bool> learning_ = true;
  std::atomic<bool> waiting_ = false;  // for memory that is still in use
  std::atomic<bool> fixed_ = false;
  std::atomic<bool> told_short_ = false;
  std::atomic<bool> by_kernel_;  // slots are one kernel's each, not all of a lane's
  std::atomic<int> epoch_ = 0;
  mutable std::mutex mutex_;  // of all that follows
  planning::PreferredSolver solver_;
  KernelSequence sequence_;
  struct Key {
    Key(const ConvolutionProblem& of, const GraphDecision* plan);
    bool operator==(const Key&) const = default;

    ConvolutionProblem problem;
    const GraphDecision* plan;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return key.problem.Hash() ^ std::hash<const void*>()(key.plan);
    }
  };
  std::unordered_map<Key, int, Hash> numbers_;
  std::unordered_map<Key, size_t, Hash> problems_;  // of the kernels that ran, numbered
  std::vector<MetKernel> kernels_;                  // by number
  std::vector<execution::ArenaOwner> lanes_;
  std::set<const void*> handles_;
  std::set<const void*> ran_;  // owners' handles
  std::list<std::set<const void*>>
      ordered_;  // handles that are one lane, which their address names
  // On the device, before handles were destroyed: the most.
  size_t held_bytes_ = 0, held_capture_bytes_ = 0;
  // Of the latest division.
  std::vector<int> planned_;  // numbers
  std::vector<planning::NetworkKernel> planned_kernels_;
  size_t planned_budget_ = 0;
  planning::DividedNetwork divided_;
  bool solved_ = false;  // divided_ is of that budget
  // It is of what was asked about, and who runs that is not known: each has a share that it may
  // use wherever it runs.
  bool asked_only_ = false;
  size_t capture_bytes_ = 0;    // what it leaves for a capture
  bool capture_ready_ = false;  // that was reserved, where there was room
  // Of the plan file.
  std::unique_ptr<std::atomic<bool>[]> dropped_;  // by kernel; read without the mutex
  std::set<int> met_;                             // its kernels that were met
  struct SegmentUse {
    int kernels = 0;        // that have a part in it
    size_t taken = 0;       // copies
    size_t kept_bytes = 0;  // for copies that nobody has taken yet
  };
  std::vector<SegmentUse> uses_;
  size_t kept_bytes_ = 0;  // of all segments
};

}  // namespace ucudnn::interposer
