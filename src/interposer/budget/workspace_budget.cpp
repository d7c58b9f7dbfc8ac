#include "interposer/budget/workspace_budget.h"

#include <algorithm>
#include <cassert>
#include <new>

#include "base/log.h"
#include "interposer/core/capacity.h"

namespace ucudnn::interposer {
namespace {

constexpr size_t kMostLanes = 4096;

}  // namespace

WorkspaceBudget::Key::Key(Api api, const ConvolutionProblem& of, uint64_t plan)
    : api(api), problem(of), plan(plan) {
  // Callers ask before they set the math type that the answer names, so the math type does not
  // distinguish kernels.
  problem.math = MathType::kDefault;
}

WorkspaceBudget::WorkspaceBudget(const cuda::Driver& driver, CUcontext context, size_t budget_bytes,
                                 WorkspaceDivision division, const std::string& solver,
                                 const planning::WorkspacePlan* workspace_plan)
    : context_(context),
      budget_bytes_(budget_bytes),
      division_(workspace_plan != nullptr ? workspace_plan->division : division),
      workspace_plan_(workspace_plan),
      arena_(driver, context, budget_bytes),
      by_kernel_(division == WorkspaceDivision::kDisjoint),
      solver_(solver, "glpk", planning::PreferredSolver::kInsideCall) {
  if (workspace_plan_ == nullptr) return;
  // The workspace plan's kernels have the first numbers, in the plan's order.
  uses_.resize(workspace_plan_->segments.size());
  for (const planning::WorkspacePlanKernel& kernel : workspace_plan_->kernels) {
    kernels_.push_back({kernel.api, kernel.problem});
    if (kernel.segment >= 0) ++uses_[kernel.segment].kernels;
  }
  dropped_ = std::make_unique<std::atomic<bool>[]>(kernels_.size());
  for (int segment = 0; segment < std::ssize(uses_); ++segment) KeepUntaken(segment, 0);
  learning_ = false;
  arena_.Fix();
  fixed_ = true;
}

void WorkspaceBudget::Open(const void* handle) {
  MutexLock lock(mutex_);
  if (handles_.empty()) held_bytes_ = held_capture_bytes_ = 0;
  handles_.insert(handle);
}

uint64_t WorkspaceBudget::Close(const void* handle, const void* lane) {
  MutexLock lock(mutex_);
  if (handles_.erase(handle) == 0) return 0;
  held_bytes_ = std::max(held_bytes_, arena_.bytes());
  held_capture_bytes_ = std::max(held_capture_bytes_, arena_.capture_bytes());
  Leave(handle);
  uint64_t leave = arena_.Leave(handle);
  if (lane != nullptr) {
    Leave(lane);
    leave = arena_.Leave(lane);
  }
  return handles_.empty() ? arena_.Leave(this) : leave;
}

void WorkspaceBudget::Leave(const void* owner) {
  ran_.erase(owner);
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (lanes_[lane].handle != owner) continue;
    lanes_[lane].handle = nullptr;
    sequence_.Leave(static_cast<int>(lane));
  }
}

int WorkspaceBudget::NumberOf(const BudgetKernel& kernel) {
  const int position =
      workspace_plan_ != nullptr ? workspace_plan_->Find(kernel.problem, kernel.api) : -1;
  if (position >= 0) return position;
  const Key key(kernel.api, kernel.problem, kernel.plan);
  if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
  if (kernels_.size() >= kMostKernels) return -1;
  const int number = static_cast<int>(kernels_.size());
  kernels_.push_back(kernel);
  numbers_.emplace(key, number);
  return number;
}

void WorkspaceBudget::Ask(const BudgetKernel& kernel) {
  if (!learning()) return;
  MutexLock lock(mutex_);
  const int number = NumberOf(kernel);
  if (number < 0) return;
  kernels_[number] = kernel;
  sequence_.Ask(number);
}

bool WorkspaceBudget::HasPlans() const {
  return std::any_of(kernels_.begin(), kernels_.end(),
                     [](const BudgetKernel& kernel) { return kernel.api == Api::kGraph; });
}

KernelSequence::Progress WorkspaceBudget::Run(const BudgetKernel& kernel, const ArenaOwner& owner) {
  assert(owner.handle != nullptr);
  MutexLock lock(mutex_);
  ran_.insert(owner.handle);
  const int number = NumberOf(kernel);
  if (number >= 0) kernels_[number] = kernel;
  const size_t lane = LaneOf(owner);
  const bool full = number < 0 || (lane == lanes_.size() && lanes_.size() >= kMostLanes);
  if (full) {
    sequence_.End();
    return Learned();
  }
  if (lane == lanes_.size()) lanes_.push_back(owner);
  lanes_[lane] = owner;
  const auto problem =
      problems_.emplace(Key(Api::kLegacy, kernel.problem, 0), problems_.size()).first;
  const KernelRun run = {number, static_cast<int>(problem->second), kernel.algorithm};
  // With several handles and with plans of the graph API, queries do not reveal the network: it is
  // unknown which handle will run which kernel, and programs make many plans only to choose among
  // them. Besides, kernels of one lane can share a segment, but a kernel that may run on any lane
  // would need a segment of its own.
  const bool asked_counts = handles_.size() <= 1 || !HasPlans();
  const KernelSequence::Progress known = sequence_.Run(run, static_cast<int>(lane), asked_counts);
  return known == KernelSequence::Progress::kRepeated ? Learned() : known;
}

size_t WorkspaceBudget::LaneOf(const ArenaOwner& owner) const {
  auto lane = std::find(lanes_.begin(), lanes_.end(), owner);
  if (lane == lanes_.end()) {
    // Programs destroy a handle and make a new handle on the same stream. The new handle then
    // continues the old lane.
    ArenaOwner former = owner;
    former.handle = nullptr;
    lane = std::find(lanes_.begin(), lanes_.end(), former);
  }
  return static_cast<size_t>(lane - lanes_.begin());
}

Result<KernelSequence::Progress> WorkspaceBudget::EndLearning() {
  MutexLock lock(mutex_);
  if (!learning()) return KernelSequence::Progress::kNotYet;
  if (lanes_.empty() && sequence_.Uses().empty()) {
    return Status::Error("no convolution ran yet, and none was asked about");
  }
  if (lanes_.empty()) return KernelSequence::Progress::kAsked;
  sequence_.End();
  return Learned();
}

Status WorkspaceBudget::MayOrder(std::initializer_list<const void*> owners) {
  MutexLock lock(mutex_);
  // A call of an ordered handle is recorded under the lane's name, any other call under its handle.
  // So the lane's name and the handle are looked up.
  bool ran = false;
  for (const void* owner : owners) ran = ran || ran_.contains(owner);
  return ran ? Status::Error("a convolution ran on one of the handles before") : Status::Ok();
}

KernelSequence::Progress WorkspaceBudget::Learned() {
  constexpr auto known = KernelSequence::Progress::kRepeated;
  learning_.store(false, std::memory_order_release);
  if (planned_.empty() || asked_only_ || sequence_.surprised() || HasPlans()) return known;
  // The program has run exactly the kernels that it had asked about, so the earlier division
  // remains valid.
  Fix();
  return KernelSequence::Progress::kNotYet;
}

std::vector<BudgetKernel> WorkspaceBudget::Kernels() {
  MutexLock lock(mutex_);
  std::vector<BudgetKernel> kernels;
  for (KernelUse& use : sequence_.Uses()) {
    BudgetKernel kernel = kernels_[use.kernel];
    kernel.use = std::move(use);
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

void WorkspaceBudget::Stop() noexcept {
  MutexLock lock(mutex_);
  learning_.store(false, std::memory_order_release);
  sequence_.End();
  waiting_ = false;
  try {
    if (!fixed_) Fix();
  } catch (const std::bad_alloc&) {
    // Out of memory: captures get no segment.
    fixed_.store(true, std::memory_order_release);
  }
  epoch_.fetch_add(1, std::memory_order_acq_rel);
}

Status WorkspaceBudget::Divide(const std::vector<BudgetKernel>& kernels,
                               std::vector<std::vector<Configuration>> choices,
                               KernelSequence::Progress known) {
  MutexLock lock(mutex_);
  // While this thread measured the kernels that were asked about, another thread may have learned
  // the whole network.
  if (fixed_ || (known == KernelSequence::Progress::kAsked && !learning())) return Status::Ok();
  assert(kernels.size() == choices.size());
  std::vector<int> planned;
  std::vector<planning::NetworkKernel> planned_kernels;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (choices[i].empty()) continue;
    planned.push_back(kernels[i].use.kernel);
    planned_kernels.push_back({std::move(choices[i]), kernels[i].use.calls, kernels[i].use.lanes});
  }
  planned_ = std::move(planned);
  planned_kernels_ = std::move(planned_kernels);
  planned_budget_ = budget_bytes_;
  asked_only_ =
      known == KernelSequence::Progress::kAsked && (handles_.size() > 1 || lanes_.empty());
  solved_ = false;
  Status status;
  try {
    status = Settle();
  } catch (...) {
    // If dividing throws, no kernel has a share.
    planned_.clear();
    throw;
  }
  if (!solver_.why().empty()) {
    WarnOnce("solver", "the exact solver takes the place of glpk: " + solver_.why());
  }
  if (!status.ok()) planned_.clear();
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  return status;
}

WorkspaceBudget::Share WorkspaceBudget::ShareOf(const BudgetKernel& kernel,
                                                const ArenaOwner& owner) {
  MutexLock lock(mutex_);
  ran_.insert(owner.handle);
  const int number = NumberOf(kernel);
  if (const auto* const segment = PlanSegmentOf(number)) {
    met_.insert(number);
    return {number, segment->bytes};
  }
  if (workspace_plan_ != nullptr && number >= 0) {
    const ArenaOwner slot = SlotOwner(owner, number);
    return {number, arena_.Available(slot)};
  }
  const int position = PlannedAt(number);
  if (position >= 0) {
    const size_t share = divided_.share_bytes[position];
    // An owner for which the share was not planned can use only the part of the budget that all
    // shares leave free. The share of an execution plan holds for all owners that run the plan,
    // because they share its decision.
    const bool own = fixed_ && kernel.api == Api::kLegacy;
    return {number, own ? std::min(share, arena_.Available(SlotOwner(owner, number))) : share};
  }
  // Kernels without a share use the part of the budget that all shares leave free; the kernels of
  // one lane use it one after the other.
  return {-1, number < 0 ? 0 : arena_.Available(SlotOwner(owner, -1))};
}

int WorkspaceBudget::PlannedAt(int kernel) const {
  assert(planned_.empty() || divided_.share_bytes.size() == planned_.size());
  const auto planned = std::find(planned_.begin(), planned_.end(), kernel);
  return planned == planned_.end() ? -1 : static_cast<int>(planned - planned_.begin());
}

WorkspaceBudget::Summary WorkspaceBudget::summary() const {
  MutexLock lock(mutex_);
  Summary summary;
  summary.total_workspace_bytes = handles_.empty() ? held_bytes_ : arena_.bytes();
  summary.capture_bytes = handles_.empty() ? held_capture_bytes_ : arena_.capture_bytes();
  summary.asked_only = asked_only_;
  if (workspace_plan_ != nullptr) {
    summary.planned_bytes = budget_bytes_;
    summary.shares_bytes = workspace_plan_->reserved_bytes;
    summary.kernels = met_.size();
    summary.divided = !met_.empty();
    return summary;
  }
  summary.divided = !planned_.empty();
  summary.planned_bytes = summary.divided ? planned_budget_ : budget_bytes_;
  summary.shares_bytes = divided_.total_bytes;
  summary.kernels = planned_.size();
  if (summary.divided) {
    summary.optimal = divided_.optimal;
    summary.solver = solver_.Name();
  }
  return summary;
}

}  // namespace ucudnn::interposer
