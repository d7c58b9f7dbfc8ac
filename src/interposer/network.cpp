#include "interposer/network.h"

#include <algorithm>
#include <new>

#include "base/byte_size.h"
#include "base/log.h"
#include "interposer/promise_book.h"

namespace ucudnn::interposer {
namespace {

constexpr size_t kMostLanes = 4096;

void WarnShort(size_t bytes) {
  WarnOnce("short of memory for the total workspace",
           "the device has no memory for " + FormatByteSize(bytes) +
               " of workspace: a smaller budget is planned");
}

}  // namespace

Network::Key::Key(const MetKernel& kernel) : problem(kernel.problem), plan(kernel.plan) {
  // Callers set the math type that they were told only after they asked.
  problem.math = MathType::kDefault;
}

Network::Network(const cuda::Driver& driver, CUcontext context, size_t budget_bytes,
                 WorkspaceDivision division, const std::string& solver,
                 const planning::PinnedPlan* pinned)
    : context_(context),
      budget_bytes_(budget_bytes),
      division_(pinned != nullptr ? pinned->division : division),
      pinned_(pinned),
      arena_(driver, context, budget_bytes),
      solver_(solver, "glpk") {
  if (pinned_ == nullptr) return;
  // The first kernels have the file's numbers.
  for (const planning::PinnedKernel& kernel : pinned_->kernels) {
    kernels_.push_back({kernel.problem});
  }
  untaken_bytes_ = pinned_->reserved_bytes;
  learning_ = false;
  arena_.Fix();
  fixed_ = true;
}

void Network::Open(const void* handle) {
  std::lock_guard lock(mutex_);
  handles_.insert(handle);
}

void Network::Close(const void* handle) {
  {
    std::lock_guard lock(mutex_);
    handles_.erase(handle);
    ran_.erase(handle);
    for (std::set<const void*>& lane : ordered_) lane.erase(handle);
    if (handles_.empty()) {
      capture_ready_ = false;
      taken_.clear();
      untaken_bytes_ = pinned_ != nullptr ? pinned_->reserved_bytes : 0;
      arena_.Release(this);
      for (const std::set<const void*>& lane : ordered_) arena_.Release(&lane);
      ordered_.clear();
      ran_.clear();
    }
  }
  arena_.Release(handle);
}

int Network::NumberOf(const MetKernel& kernel) {
  const bool legacy = kernel.plan == nullptr;
  const int pinned = pinned_ != nullptr ? pinned_->Find(kernel.problem, legacy) : -1;
  if (pinned >= 0) return pinned;
  const Key key(kernel);
  if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
  if (kernels_.size() >= kMostKernels) return -1;
  const int number = static_cast<int>(kernels_.size());
  kernels_.push_back(kernel);
  numbers_.emplace(key, number);
  return number;
}

void Network::Ask(const MetKernel& kernel) {
  if (!learning()) return;
  std::lock_guard lock(mutex_);
  const int number = NumberOf(kernel);
  if (number < 0) return;
  kernels_[number] = kernel;
  sequence_.Ask(number);
}

bool Network::HasPlans() const {
  return std::any_of(kernels_.begin(), kernels_.end(),
                     [](const MetKernel& kernel) { return kernel.plan != nullptr; });
}

KernelSequence::Known Network::Run(const MetKernel& kernel, const execution::ArenaOwner& owner) {
  std::lock_guard lock(mutex_);
  ran_.insert(owner.handle);
  const int number = NumberOf(kernel);
  if (number >= 0) kernels_[number] = kernel;
  const auto lane = std::find(lanes_.begin(), lanes_.end(), owner);
  const auto position = static_cast<int>(lane - lanes_.begin());
  const bool full = number < 0 || (lane == lanes_.end() && lanes_.size() >= kMostLanes);
  if (full) {
    sequence_.End();
  } else if (lane == lanes_.end()) {
    lanes_.push_back(owner);
  }
  const KernelSequence::Known known = full ? KernelSequence::Known::kRepeated
                                           : sequence_.Run(number, position, handles_.size() <= 1);
  return known == KernelSequence::Known::kRepeated ? Learned() : known;
}

Result<KernelSequence::Known> Network::EndLearning() {
  std::lock_guard lock(mutex_);
  if (!learning()) return KernelSequence::Known::kNotYet;
  if (lanes_.empty()) return Status::Error("no convolution ran yet");
  sequence_.End();
  return Learned();
}

Result<Network::Lane> Network::DeclareOrder(const void* first, const void* second) {
  std::lock_guard lock(mutex_);
  std::set<const void*> handles = {first, second};
  bool ran = ran_.contains(first) || ran_.contains(second);
  std::vector<std::set<const void*>*> met;
  for (std::set<const void*>& lane : ordered_) {
    if (!lane.contains(first) && !lane.contains(second)) continue;
    handles.insert(lane.begin(), lane.end());
    ran |= ran_.contains(&lane);
    met.push_back(&lane);
  }
  if (ran) return Status::Error("a convolution ran on one of the handles before");
  if (met.empty()) met.push_back(&ordered_.emplace_back());
  Lane lane = {{handles.begin(), handles.end()}, met[0]};
  // The others' names are no longer anybody's.
  for (std::set<const void*>* other : met) other->clear();
  *met[0] = std::move(handles);
  return lane;
}

KernelSequence::Known Network::Learned() {
  constexpr auto known = KernelSequence::Known::kRepeated;
  learning_.store(false, std::memory_order_release);
  if (planned_.empty() || sequence_.surprised() || HasPlans()) return known;
  // What was planned when all was asked about holds.
  Fix();
  return KernelSequence::Known::kNotYet;
}

std::vector<MetKernel> Network::Kernels() {
  std::lock_guard lock(mutex_);
  std::vector<MetKernel> kernels;
  for (KernelUse& use : sequence_.Uses()) {
    MetKernel kernel = kernels_[use.kernel];
    kernel.use = std::move(use);
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

Status Network::Settle() {
  const bool last = !learning();
  std::vector<execution::Arena::Need> needs;
  for (;;) {
    if (!solved_) {
      UCUDNN_ASSIGN_OR_RETURN(
          divided_, planning::DivideNetwork(planned_kernels_, planned_budget_, division_, solver_));
    }
    solved_ = true;
    needs.clear();
    for (const planning::Slot& slot : divided_.slots) {
      const int kernel = slot.kernel < 0 ? -1 : planned_[slot.kernel];
      needs.push_back({SlotOwner(lanes_[slot.lane], kernel), slot.bytes});
    }
    const execution::Arena::Readiness readiness = arena_.Prepare(needs);
    if (readiness == execution::Arena::Readiness::kBusy) {
      waiting_ = true;
      return Status::Ok();
    }
    if (readiness == execution::Arena::Readiness::kReady) break;
    const size_t smaller = std::min(planned_budget_, divided_.total_bytes) / 2;
    WarnShort(divided_.total_bytes);
    planned_budget_ = smaller;
    solved_ = false;
    epoch_.fetch_add(1, std::memory_order_acq_rel);
  }
  waiting_ = false;
  if (last) Fix();
  return Status::Ok();
}

void Network::Fix() {
  arena_.Fix();
  // What is left may serve one capture: all of its kernels, or those that fit.
  size_t largest = 0;
  for (const planning::Slot& slot : divided_.slots) {
    if (lanes_[slot.lane].capturable) largest = std::max(largest, slot.bytes);
  }
  const size_t left = planned_budget_ - std::min(planned_budget_, arena_.bytes());
  if (std::min(largest, left) > 0) arena_.ReserveForCapture(std::min(largest, left));
  fixed_.store(true, std::memory_order_release);
}

void Network::Stop() noexcept {
  std::lock_guard lock(mutex_);
  learning_.store(false, std::memory_order_release);
  sequence_.End();
  waiting_ = false;
  try {
    if (!fixed_) Fix();
  } catch (const std::bad_alloc&) {
    // Without a segment for a capture.
    fixed_.store(true, std::memory_order_release);
  }
  epoch_.fetch_add(1, std::memory_order_acq_rel);
}

Status Network::Divide(const std::vector<MetKernel>& kernels,
                       std::vector<std::vector<Configuration>> choices,
                       KernelSequence::Known known) {
  std::lock_guard lock(mutex_);
  // While one thread measured what was asked about, another may have learned all.
  if (fixed_ || (known == KernelSequence::Known::kAsked && !learning())) return Status::Ok();
  planned_.clear();
  planned_kernels_.clear();
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (choices[i].empty()) continue;
    planned_.push_back(kernels[i].use.kernel);
    planned_kernels_.push_back({std::move(choices[i]), kernels[i].use.calls, kernels[i].use.lanes});
  }
  planned_budget_ = budget_bytes_;
  solved_ = false;
  const Status status = Settle();
  if (!solver_.why().empty()) {
    WarnOnce("solver", "the exact solver takes the place of glpk: " + solver_.why());
  }
  if (!status.ok()) planned_.clear();
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  return status;
}

Network::Share Network::ShareOf(const MetKernel& kernel, const execution::ArenaOwner& owner) {
  std::lock_guard lock(mutex_);
  ran_.insert(owner.handle);
  const int number = NumberOf(kernel);
  if (const auto* const segment = PinnedSegmentOf(number)) return {number, segment->bytes};
  if (pinned_ != nullptr && number >= 0) {
    const execution::ArenaOwner slot = SlotOwner(owner, number);
    const size_t left = arena_.Available(slot);
    return {number, std::max(arena_.Owned(slot), left - std::min(left, untaken_bytes_))};
  }
  const auto planned = std::find(planned_.begin(), planned_.end(), number);
  if (number >= 0 && planned != planned_.end()) {
    const size_t share = divided_.share_bytes[planned - planned_.begin()];
    // Another owner than it was planned for has what is left; what is decided about a plan holds
    // for all that run it.
    const bool own = fixed_ && kernel.plan == nullptr;
    return {number, own ? std::min(share, arena_.Available(SlotOwner(owner, number))) : share};
  }
  return {number, number < 0 ? 0 : arena_.Available(SlotOwner(owner, number))};
}

Network::Segment Network::Take(const execution::ArenaOwner& of, const LibraryPart& part) {
  if (waiting_.load(std::memory_order_acquire)) {
    std::lock_guard lock(mutex_);
    if (waiting_ && !Settle().ok()) {
      waiting_ = false;
      Fix();
    }
  }
  if (pinned_ != nullptr) return TakePinned(of, part);
  if (part.epoch != epoch() || waiting_.load(std::memory_order_acquire)) return {};
  const execution::ArenaOwner owner = SlotOwner(of, part.kernel);
  const bool lent = !fixed_.load(std::memory_order_acquire);
  const Segment segment = {lent ? arena_.Borrow(owner, part.bytes) : arena_.Take(owner, part.bytes),
                           lent};
  if (segment.memory.data == nullptr && !told_short_ && arena_.short_of_memory()) {
    told_short_ = true;
    WarnShort(part.bytes);
  }
  return segment;
}

const planning::PinnedSegment* Network::PinnedSegmentOf(int kernel) const {
  if (pinned_ == nullptr || kernel < 0 || kernel >= std::ssize(pinned_->kernels)) return nullptr;
  const int segment = pinned_->kernels[kernel].segment;
  return segment < 0 ? nullptr : &pinned_->segments[segment];
}

execution::ArenaOwner Network::SlotOwner(execution::ArenaOwner owner, int kernel) const {
  if (pinned_ == nullptr) {
    owner.kernel = division_ == WorkspaceDivision::kDisjoint ? kernel : -1;
    return owner;
  }
  const planning::PinnedSegment* const segment = PinnedSegmentOf(kernel);
  if (segment != nullptr && segment->ordered) {
    owner = {this};
    owner.capturable = true;
  }
  owner.kernel = segment != nullptr ? pinned_->kernels[kernel].segment : -1;
  return owner;
}

Network::Segment Network::TakePinned(const execution::ArenaOwner& owner, const LibraryPart& part) {
  std::lock_guard lock(mutex_);
  const planning::PinnedSegment* const pinned = PinnedSegmentOf(part.kernel);
  const int number = pinned != nullptr ? pinned_->kernels[part.kernel].segment : -1;
  const bool first = pinned != nullptr && !taken_.contains(number);
  const execution::ArenaOwner slot = SlotOwner(owner, part.kernel);
  const size_t bytes = pinned != nullptr ? std::max(part.bytes, pinned->bytes) : part.bytes;
  const size_t left = budget_bytes_ - std::min(budget_bytes_, arena_.bytes());
  const bool room = first || bytes <= left - std::min(left, untaken_bytes_);
  // Of a handle that is gone, on the same stream.
  execution::ArenaOwner former = slot;
  former.handle = nullptr;
  if (!room && std::max(arena_.Owned(slot), arena_.Owned(former)) < bytes) return {};
  const Segment segment = {arena_.Take(slot, bytes), false};
  if (segment.memory.data == nullptr) {
    if (arena_.short_of_memory() && !told_short_.exchange(true)) WarnShort(bytes);
    return segment;
  }
  if (first) {
    taken_.insert(number);
    untaken_bytes_ -= pinned->bytes;
  }
  if (owner.capturable && !capture_ready_) {
    capture_ready_ = true;
    size_t largest = 0;
    for (const planning::PinnedSegment& one : pinned_->segments) {
      largest = std::max(largest, one.bytes);
    }
    const size_t spare = budget_bytes_ - std::min(budget_bytes_, arena_.bytes());
    const size_t reserve = std::min(largest, spare - std::min(spare, untaken_bytes_));
    if (reserve > 0) arena_.ReserveForCapture(reserve);
  }
  return segment;
}

Network::Summary Network::summary() const {
  std::lock_guard lock(mutex_);
  Summary summary;
  if (pinned_ != nullptr) {
    return {budget_bytes_, pinned_->reserved_bytes, pinned_->kernels.size(), true, false};
  }
  summary.divided = !planned_.empty();
  summary.budget_bytes = summary.divided ? planned_budget_ : budget_bytes_;
  summary.total_bytes = divided_.total_bytes;
  summary.kernels = planned_.size();
  summary.optimal = divided_.optimal;
  if (summary.divided) summary.solver = solver_.Name();
  return summary;
}

}  // namespace ucudnn::interposer
