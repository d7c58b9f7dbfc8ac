// The workspace budgets of this process, one for each device (UCUDNN_TOTAL_WORKSPACE, or a
// workspace plan with a total). A budget learns its device's network from the program's calls and
// is divided among the network's kernels, unless a workspace plan defines the network and its
// division. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "interposer/budget/workspace_budget.h"
#include "interposer/core/kernel_rules.h"
#include "interposer/pinned/followed_plan.h"
#include "interposer/report/reporter.h"
#include "interposer/session/session.h"
#include "planning/decision/facts.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::interposer {

// The argument of ChoicesOf: a kernel, and how ChoicesOf may find the kernel's configurations.
struct DivisionQuestion {
  const BudgetKernel& kernel;
  Session& session;
  cudnnHandle_t handle;
  bool may_measure;  // missing measurements may be made
  // The bytes that the kernel would get if all kernels got equal parts. Tiles are sought if the
  // kernel needs more than this.
  size_t part_bytes;
};

// Lists the configurations of a kernel, from which the division of the budget chooses one. Each API
// implements this class. ChoicesOf returns an empty list if it is unknown how long the kernel takes
// without workspace.
class DivisionChoices {
 public:
  virtual ~DivisionChoices() = default;
  virtual std::vector<Configuration> ChoicesOf(const DivisionQuestion& question) = 0;
  // Returns whether a promise has assured workspace for the kernel. The kernel then needs no share.
  virtual bool IsAssured(const BudgetKernel&, const Session&) { return false; }
};

class Budgets {
 public:
  // The caller owns all arguments and keeps them alive.
  Budgets(const Options& options, FollowedPlan& followed_plan, const KernelRules& rules,
          tuning::MeasuredKernels& kernels, Reporter& reporter)
      : options_(options),
        followed_plan_(followed_plan),
        rules_(rules),
        kernels_(kernels),
        reporter_(reporter) {}
  // To be called before anything runs. The caller owns both objects and keeps them alive.
  void SetChoices(DivisionChoices& legacy, DivisionChoices& graph) {
    legacy_ = &legacy;
    graph_ = &graph;
  }

  // Returns the device's budget; null if there is none, or if the budget belongs to another context
  // of the device.
  WorkspaceBudget* Of(const tuning::Device& device);
  // To be called when `handle` was destroyed or is about to be. `lane` is the name of the lane that
  // ends with the handle; null: no lane ends. Returns the handle's budget (null: none) and the
  // result of WorkspaceBudget::Close.
  std::pair<WorkspaceBudget*, uint64_t> Leave(const void* handle, const void* lane);

  // To be called before a call runs. The budget learns from the call, and is divided once it knows
  // enough. If an earlier division waited for memory that is free now, completes that division.
  // Does nothing inside a capture.
  void Follow(const BudgetKernel& kernel, Session& session, cudnnHandle_t handle) noexcept;
  // Returns the share of `kernel` on `session`, and sets `part.kernel` to the kernel's number.
  // Returns none if there is no budget, or if the driver does not report the stream's id.
  std::optional<planning::BudgetShare> ShareOf(const BudgetKernel& kernel, const Session& session,
                                               cudnnHandle_t handle, OwnedPart& part) const;
  // Does the work of Sessions::EndRecording. `session` is the session of `handle`.
  Status EndRecording(Session& session, cudnnHandle_t handle);

  // Updates the report's figures of all budgets.
  void NoteAll();

 private:
  // Returns the bytes that each of `kernels` would get on each of its lanes if all parts were
  // equal.
  size_t PartOf(const WorkspaceBudget& budget, const std::vector<BudgetKernel>& kernels) const;
  void Divide(WorkspaceBudget& budget, Session& session, cudnnHandle_t handle,
              KernelSequence::Progress known);
  std::unique_ptr<WorkspaceBudget> Make(const tuning::Device& device,
                                        const planning::WorkspacePlan* workspace_plan);
  void NoteBudget(const WorkspaceBudget& budget);

  const Options& options_;
  FollowedPlan& followed_plan_;
  const KernelRules& rules_;
  tuning::MeasuredKernels& kernels_;
  Reporter& reporter_;
  DivisionChoices* legacy_ = nullptr;
  DivisionChoices* graph_ = nullptr;
  Mutex mutex_;
  std::map<CUdevice, std::unique_ptr<WorkspaceBudget>> budgets_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::interposer
