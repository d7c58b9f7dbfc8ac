// A kernel's decision, ready to run. After a state is published to other threads, only its atomic
// members change.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <optional>

#include "execution/schedule.h"
#include "interposer/report/report.h"
#include "planning/decision/decide.h"

namespace ucudnn::interposer {

// The part of ucudnn's workspace that a plan uses: its bytes, the kernel's number in the budget,
// and the number of the division that gave the part (WorkspaceBudget::epoch).
struct OwnedPart {
  size_t bytes = 0;
  int kernel = -1;
  int epoch = 0;
  // True if the kernel cannot run without workspace. Assured workspace is then used if no other
  // workspace is left.
  bool assured = false;
};

struct KernelState {
  planning::Decision decision;
  // Null: the program's own call runs. A state shares the schedule with the state that it replaces
  // if the schedule stays the same.
  std::shared_ptr<const execution::Schedule> schedule;
  std::optional<planning::Build> built;  // the question for which the schedule was built; none:
                                         // nothing was built
  CountedKernel* record = nullptr;
  OwnedPart owned;
  // Set if calls are checked (UCUDNN_CHECK): the coarsest NumericClass among the pieces and the
  // undivided engine.
  std::optional<NumericClass> checked;
  // True once a piece has failed or the plan was found wrong. The kernel then runs undivided if an
  // undivided engine keeps the promise. All states of the kernel share the flag.
  std::shared_ptr<std::atomic<bool>> failed;
  // True once all pieces have run outside a capture, so that a capture may contain them.
  std::atomic<bool> ran = false;
  // The number of calls after which the kernel is decided about anew; kFinal: never.
  static constexpr long kFinal = std::numeric_limits<long>::max();
  std::atomic<long> due_at = kFinal;
  // EpochOf(the budget) at the latest decision; -1: the kernel's share was not asked for yet.
  std::atomic<int> decided_epoch = 0;

  bool refused() const { return decision.action == planning::CallAction::kRefusal; }
  // Returns whether more may be known than at the latest decision: the kernel has had enough calls
  // (`calls`), or the budget was divided anew (`epoch`).
  bool IsDue(const std::atomic<long>& calls, int epoch) const {
    if (decided_epoch.load(std::memory_order_relaxed) != epoch) return true;
    const long due = due_at.load(std::memory_order_relaxed);
    return due != kFinal && calls.load(std::memory_order_relaxed) >= due;
  }
  bool Divides() const { return schedule != nullptr && schedule->has_pieces() && !*failed; }
  // Counts a call that runs undivided although the plan in the report has several pieces.
  void CountUndivided() const {
    if (record->record.configuration.Pieces() > 1) {
      record->undivided_calls.fetch_add(1, std::memory_order_relaxed);
    }
  }
};

}  // namespace ucudnn::interposer
