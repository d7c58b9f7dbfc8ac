// The memory of a workspace budget: gives each owner its segment of the arena, according to the
// division or to a workspace plan.
#include <algorithm>
#include <cassert>

#include "base/byte_size.h"
#include "base/log.h"
#include "interposer/budget/workspace_budget.h"

namespace ucudnn::interposer {
namespace {

void WarnShort(size_t bytes, const char* consequence) {
  WarnOnce(
      "short of memory for the total workspace",
      "the device has no memory for " + FormatByteSize(bytes) + " of workspace: " + consequence);
}

constexpr const char* kWithout = "kernels run without";

}  // namespace

Status WorkspaceBudget::Settle() {
  const bool last = !learning();
  std::vector<Arena::Need> needs;
  for (;;) {
    const size_t taken = arena_.lost_bytes() + arena_.set_aside_bytes();
    const size_t usable = budget_bytes_ - std::min(budget_bytes_, taken);
    if (planned_budget_ > usable) Lower(usable);
    if (!solved_) {
      const auto division = asked_only_ ? WorkspaceDivision::kDisjoint : division_;
      UCUDNN_ASSIGN_OR_RETURN(
          divided_, planning::DivideNetwork(planned_kernels_, planned_budget_, division, solver_));
    }
    solved_ = true;
    by_kernel_.store(divided_.by_kernel, std::memory_order_release);
    // It is unknown which lanes will run kernels that were only asked about. So no segment is
    // prepared, and each call borrows its memory.
    if (asked_only_) break;
    needs.clear();
    for (const planning::Slot& slot : divided_.slots) {
      if (lanes_[slot.lane].handle == nullptr) continue;
      const int kernel = slot.kernel < 0 ? -1 : planned_[slot.kernel];
      needs.push_back({SlotOwner(lanes_[slot.lane], kernel), slot.bytes});
    }
    const Arena::Readiness readiness = arena_.Prepare(needs);
    if (readiness == Arena::Readiness::kBusy) {
      waiting_ = true;
      return Status::Ok();
    }
    if (readiness == Arena::Readiness::kReady) break;
    WarnShort(divided_.total_bytes, "a smaller budget is planned");
    Lower(std::min(planned_budget_, divided_.total_bytes) / 2);
  }
  waiting_ = false;
  if (last) Fix();
  return Status::Ok();
}

void WorkspaceBudget::Lower(size_t budget_bytes) {
  planned_budget_ = budget_bytes;
  solved_ = false;
  epoch_.fetch_add(1, std::memory_order_acq_rel);
}

void WorkspaceBudget::Fix() {
  arena_.Fix();
  // Reserves the memory that the division leaves for one capture. The kernels of the capture that
  // need no more than this memory share it.
  size_t largest = 0;
  for (const planning::Slot& slot : divided_.slots) {
    if (asked_only_) break;  // the lanes of kernels that were only asked about are unknown
    const ArenaOwner& lane = lanes_[slot.lane];
    if (lane.capturable && lane.handle != nullptr) largest = std::max(largest, slot.bytes);
  }
  const size_t of_calls = arena_.bytes() - arena_.set_aside_bytes();
  capture_bytes_ =
      std::min({largest, arena_.left(), planned_budget_ - std::min(planned_budget_, of_calls)});
  ReadyCapture(capture_bytes_);
  fixed_.store(true, std::memory_order_release);
}

void WorkspaceBudget::SettleNow() {
  MutexLock lock(mutex_);
  if (waiting_ && !Settle().ok()) {
    waiting_ = false;
    Fix();
  }
}

WorkspaceBudget::Segment WorkspaceBudget::Take(const ArenaOwner& of, const OwnedPart& part,
                                               CUstream stream) {
  if (waiting()) SettleNow();
  if (workspace_plan_ != nullptr) return TakePlanSegment(of, part, stream);
  if (part.epoch != epoch() || waiting_.load(std::memory_order_acquire)) return {};
  const ArenaOwner owner = SlotOwner(of, part.kernel);
  const bool lent = !fixed_.load(std::memory_order_acquire);
  const Segment segment = {lent ? arena_.Borrow(owner, part.bytes) : TakeShare(owner, part, stream),
                           lent};
  if (segment.memory.data == nullptr && arena_.short_of_memory() && !told_short_.exchange(true)) {
    WarnShort(part.bytes, kWithout);
  }
  return segment;
}

Arena::Segment WorkspaceBudget::TakeForCapture(const cuda::Capture& capture,
                                               const ArenaOwner& owner, const OwnedPart& part) {
  if (!part.assured) return arena_.TakeForCapture(capture, owner, part.bytes);
  const auto memory = arena_.TakeAssuredForCapture(capture, owner, part.bytes);
  WarnBeyondBudget();
  return memory;
}

bool WorkspaceBudget::Assure(size_t bytes) {
  if (arena_.IsAssured(bytes)) return true;
  MutexLock lock(mutex_);  // ensures that no division is in progress
  return arena_.Assure(bytes);
}

WorkspaceBudget::Segment WorkspaceBudget::TakeAssured(const ArenaOwner& owner, size_t bytes,
                                                      CUstream stream) {
  const Segment segment = {arena_.BorrowAssured(owner, bytes, stream), true};
  WarnBeyondBudget();
  return segment;
}

void WorkspaceBudget::WarnBeyondBudget() const {
  if (arena_.bytes() <= budget_bytes_) return;
  WarnOnce("beyond the budget", "kernels that cannot do without workspace hold more than the " +
                                    FormatByteSize(budget_bytes_) + " of the total workspace");
}

Arena::Segment WorkspaceBudget::TakeShare(const ArenaOwner& owner, const OwnedPart& part,
                                          CUstream stream) {
  MutexLock lock(mutex_);
  const int position = PlannedAt(part.kernel);
  const size_t share = position < 0 ? 0 : divided_.share_bytes[position];
  // The lane takes its whole share in one step. If the lane's segment grew kernel by kernel, the
  // lane would hold old and new segments at the same time.
  const bool whole = share > part.bytes && share <= arena_.Available(owner);
  const Arena::Segment segment = arena_.Take(owner, whole ? share : part.bytes, stream);
  if (segment.data != nullptr && owner.capturable && !capture_ready_) ReadyCapture(capture_bytes_);
  return segment;
}

const planning::WorkspacePlanSegment* WorkspaceBudget::PlanSegmentOf(int kernel) const {
  if (workspace_plan_ == nullptr || kernel < 0 || kernel >= std::ssize(workspace_plan_->kernels))
    return nullptr;
  if (dropped_[kernel].load(std::memory_order_acquire)) return nullptr;
  const int segment = workspace_plan_->kernels[kernel].segment;
  return segment < 0 ? nullptr : &workspace_plan_->segments[segment];
}

ArenaOwner WorkspaceBudget::SlotOwner(ArenaOwner owner, int kernel) const {
  if (workspace_plan_ == nullptr) {
    owner.kernel = by_kernel_.load(std::memory_order_acquire) ? kernel : -1;
    return owner;
  }
  const planning::WorkspacePlanSegment* const segment = PlanSegmentOf(kernel);
  if (segment != nullptr && segment->ordered) {
    owner = {this};
    owner.capturable = true;
  }
  owner.kernel = segment != nullptr ? workspace_plan_->kernels[kernel].segment : -1;
  return owner;
}

WorkspaceBudget::Segment WorkspaceBudget::TakePlanSegment(const ArenaOwner& owner,
                                                          const OwnedPart& part, CUstream stream) {
  MutexLock lock(mutex_);
  const planning::WorkspacePlanSegment* const segment = PlanSegmentOf(part.kernel);
  const int number = segment != nullptr ? workspace_plan_->kernels[part.kernel].segment : -1;
  const size_t bytes = segment != nullptr ? std::max(part.bytes, segment->bytes) : part.bytes;
  const ArenaOwner slot = SlotOwner(owner, part.kernel);
  // Reserved copies are for owners that have no copy yet. This owner is about to take one, so one
  // copy less is reserved.
  if (segment != nullptr && !arena_.Has(slot, bytes)) KeepUntaken(number, uses_[number].taken + 1);
  const Segment taken = {arena_.Take(slot, bytes, stream), false};
  if (segment != nullptr) KeepUntaken(number, arena_.CopiesOf(number));
  if (taken.memory.data == nullptr) {
    if (arena_.short_of_memory() && !told_short_.exchange(true)) {
      WarnShort(bytes, kWithout);
    }
    return taken;
  }
  if (owner.capturable && !capture_ready_) {
    size_t largest = 0;
    for (const planning::WorkspacePlanSegment& one : workspace_plan_->segments) {
      largest = std::max(largest, one.bytes);
    }
    ReadyCapture(std::min(largest, arena_.left()));
  }
  return taken;
}

void WorkspaceBudget::ReadyCapture(size_t bytes) {
  if (bytes > 0) arena_.ReserveForCapture(bytes);
  capture_ready_ = true;
}

void WorkspaceBudget::Closed(uint64_t leave) {
  MutexLock lock(mutex_);
  if (arena_.Waited(leave)) capture_ready_ = false;
  if (workspace_plan_ == nullptr) return;
  // Copies whose owners are gone are reserved for the next owners.
  for (int segment = 0; segment < std::ssize(uses_); ++segment) {
    if (uses_[segment].taken > 0) KeepUntaken(segment, arena_.CopiesOf(segment));
  }
}

void WorkspaceBudget::KeepUntaken(int number, size_t taken) {
  const planning::WorkspacePlanSegment& segment = workspace_plan_->segments[number];
  SegmentUse& use = uses_[number];
  const size_t wanted = use.kernels > 0 ? segment.copies : 0;
  assert(kept_bytes_ >= use.kept_bytes);
  kept_bytes_ -= use.kept_bytes;
  use.taken = taken;
  use.kept_bytes = segment.bytes * (wanted - std::min(wanted, taken));
  kept_bytes_ += use.kept_bytes;
  arena_.Keep(kept_bytes_);
}

void WorkspaceBudget::Drop(const ConvolutionProblem& problem) {
  const int kernel = workspace_plan_ == nullptr ? -1 : workspace_plan_->Find(problem, Api::kLegacy);
  if (kernel < 0 || dropped_[kernel].exchange(true, std::memory_order_acq_rel)) return;
  MutexLock lock(mutex_);
  const int segment = workspace_plan_->kernels[kernel].segment;
  if (segment < 0) return;
  assert(uses_[segment].kernels > 0);
  --uses_[segment].kernels;
  KeepUntaken(segment, uses_[segment].taken);
}

}  // namespace ucudnn::interposer
