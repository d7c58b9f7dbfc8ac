#include "interposer/budget/arena.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "cuda/resources.h"

namespace ucudnn::interposer {
namespace {

constexpr size_t kAll = std::numeric_limits<size_t>::max();  // more than any limit

}  // namespace

std::optional<ArenaOwner> OwnerOf(const cuda::Driver& driver, const void* handle, CUstream stream) {
  unsigned long long id = 0;
  if (driver.cuStreamGetId(stream, &id) != CUDA_SUCCESS) return std::nullopt;
  ArenaOwner owner{handle, id};
  owner.capturable = stream != nullptr && stream != CU_STREAM_LEGACY;
  if (stream == CU_STREAM_PER_THREAD) owner.thread = std::this_thread::get_id();
  return owner;
}

Arena::~Arena() {
  const cuda::ContextScope context(driver_, context_);
  Free([](const Block&) { return true; });
  pool_.reset();
  stream_.reset();
}

bool Arena::HasPool() {
  if (!pool_) {
    stream_.emplace(driver_);
    pool_.emplace(driver_);
    const Status status = stream_->Create();
    if (status.ok()) (void)pool_->Create(stream_->get());
  }
  return pool_->ordered();
}

Arena::Block* Arena::Allocate(size_t bytes, Use use, Bound bound) {
  const bool refused = bound == Bound::kLimit && (bytes > Left() || bytes >= short_from_);
  if (bytes == 0 || refused) return nullptr;
  blocks_.reserve(blocks_.size() + 1);
  const cuda::ContextScope context(driver_, context_);
  const cuda::RelaxedCaptureScope relaxed(driver_);
  HasPool();
  CUdeviceptr address = 0;
  if (pool_->Allocate(&address, bytes) != CUDA_SUCCESS) {
    // Remembers only failed allocations for calls. If an allocation to set memory aside fails,
    // calls may still get smaller segments.
    if (use == Use::kStream) short_from_ = bytes;
    return nullptr;
  }
  // The allocation is ordered on the pool's own stream. Waiting for that stream makes the memory
  // usable on other streams.
  pool_->GiveBack();
  bytes_ += bytes;
  assert(bytes_ <= limit_bytes_ || bound == Bound::kDevice);
  Block& block = blocks_.emplace_back();
  block.segment = {reinterpret_cast<void*>(address), bytes};
  block.use = use;
  return &block;
}

template <typename Unwanted>
void Arena::Free(Unwanted unwanted) {
  const cuda::ContextScope context(driver_, context_);
  const cuda::RelaxedCaptureScope relaxed(driver_);
  const size_t freed = std::erase_if(blocks_, [&](Block& block) {
    mutex_.AssertHeld();
    if (!unwanted(block)) return false;
    if (block.over != nullptr) driver_.cuEventDestroy(block.over);
    pool_->Free(reinterpret_cast<CUdeviceptr>(block.segment.data));
    assert(bytes_ >= block.segment.bytes);
    bytes_ -= block.segment.bytes;
    return true;
  });
  if (freed == 0) return;
  pool_->GiveBack();
  short_from_ = kAll;
  // There may be enough memory now for the missing segment for captures, so the next Assure must
  // try again.
  if (assured_bytes() > 0 && FindUse(Use::kAssuredCapture) == nullptr) capture_took_.store(true);
}

bool Arena::IsIdle(const Block& block) const {
  if (IsLeft(block)) return true;
  if (block.use != Use::kStream || block.loans > 0 || block.lost) return false;
  // After Fix an owner may use its remembered segment without calling the arena, so the arena
  // cannot know when the segment is idle.
  if (fixed_ && !block.given_up) return false;
  return block.over == nullptr || driver_.cuEventQuery(block.over) == CUDA_SUCCESS;
}

Arena::Block* Arena::Find(const ArenaOwner& owner, size_t bytes) {
  Block* smallest = nullptr;
  for (Block& block : blocks_) {
    if (block.use != Use::kStream || block.owner != owner || block.given_up) continue;
    if (block.segment.bytes < bytes) continue;
    if (smallest == nullptr || block.segment.bytes < smallest->segment.bytes) smallest = &block;
  }
  return smallest;
}

size_t Arena::Own(const ArenaOwner& owner) const {
  size_t own = 0;
  for (const Block& block : blocks_) {
    if (block.use != Use::kStream || block.owner != owner || block.given_up) continue;
    own = std::max(own, block.segment.bytes);
  }
  return own;
}

template <typename Spared>
void Arena::MakeRoom(size_t bytes, Spared spared) {
  const cuda::ContextScope context(driver_, context_);
  const cuda::RelaxedCaptureScope relaxed(driver_);
  if (!HasPool()) return;
  Free([&](const Block& block) {
    mutex_.AssertHeld();
    return bytes > Left() && !spared(block) && IsIdle(block);
  });
}

void Arena::RecordOver(Block& block, CUstream stream) {
  if (block.over == nullptr &&
      driver_.cuEventCreate(&block.over, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
    block.over = nullptr;
  }
  // The work of one owner is ordered, so the event is recorded behind all of it.
  block.lost = block.over == nullptr || driver_.cuEventRecord(block.over, stream) != CUDA_SUCCESS;
}

void Arena::GiveUp(const ArenaOwner& owner, const Block* kept, CUstream stream) {
  const cuda::ContextScope context(driver_, context_);
  bool any = false;
  for (Block& block : blocks_) {
    if (block.use != Use::kStream || block.owner != owner || block.given_up) continue;
    const bool stays = kept == nullptr ? block.prepared : block.segment.bytes > kept->segment.bytes;
    if (&block == kept || stays) continue;
    RecordOver(block, stream);
    block.given_up = any = true;
  }
  if (any) generation_.fetch_add(1, std::memory_order_acq_rel);
}

void Arena::Note(const void* handle) {
  if (std::find(handles_.begin(), handles_.end(), handle) == handles_.end()) {
    handles_.push_back(handle);
  }
}

size_t Arena::Soon(const ArenaOwner& owner) {
  const cuda::ContextScope context(driver_, context_);
  const cuda::RelaxedCaptureScope relaxed(driver_);
  if (!HasPool()) return 0;
  size_t soon = 0;
  for (const Block& block : blocks_) {
    const bool may_go = block.given_up || block.owner == owner;
    if (block.use != Use::kStream || block.prepared || block.lost) continue;
    if (fixed_ ? may_go : IsIdle(block)) soon += block.segment.bytes;
  }
  return soon;
}

size_t Arena::Available(const ArenaOwner& owner) {
  MutexLock lock(mutex_);
  // Graphs may hold memory beyond the limit, and then Left() is 0. So memory that graphs have
  // released is freed before Left() is called.
  MakeRoom(1, [](const Block& block) { return block.use != Use::kCapture; });
  return std::max(Own(owner), Soon(owner) + (IsShort() ? 0 : Left()));
}

void Arena::Keep(size_t bytes) {
  MutexLock lock(mutex_);
  assert(bytes <= limit_bytes_);
  kept_ = bytes;
}

Arena::Segment Arena::Borrow(const ArenaOwner& owner, size_t bytes) {
  MutexLock lock(mutex_);
  if (fixed_) return {};
  Block* block = Find(owner, bytes);
  if (block == nullptr) {
    const cuda::ContextScope context(driver_, context_);
    const cuda::RelaxedCaptureScope relaxed(driver_);
    // Without a pool, freeing lent memory would wait for the device, so nothing is lent.
    if (!HasPool()) return {};
    MakeRoom(bytes, [](const Block& other) { return other.prepared; });
    block = Allocate(bytes, Use::kStream);
    if (block == nullptr) return {};
    block->owner = owner;
  }
  Note(owner.handle);
  ++block->loans;
  return block->segment;
}

void Arena::GiveBack(const Segment& segment, CUstream stream) {
  MutexLock lock(mutex_);
  const auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& other) {
    return other.segment.data == segment.data;
  });
  if (block == blocks_.end()) return;
  assert(block->loans > 0);
  --block->loans;
  const cuda::ContextScope context(driver_, context_);
  RecordOver(*block, stream);
}

Arena::Readiness Arena::Prepare(std::span<const Need> needs) {
  MutexLock lock(mutex_);
  // Owners may have remembered their segments since Fix, so no segment is freed.
  if (fixed_) return Readiness::kReady;
  std::vector<const Need*> missing;
  short_from_ = kAll;
  for (Block& block : blocks_) block.prepared = false;
  for (const Need& need : needs) {
    Block* const block = Find(need.owner, need.bytes);
    if (block != nullptr && block->segment.bytes == need.bytes) {
      block->prepared = true;
    } else {
      missing.push_back(&need);
    }
  }
  MakeRoom(kAll, [](const Block& block) { return block.prepared; });
  const bool busy = std::any_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return block.use == Use::kStream && !block.prepared && !block.lost;
  });
  // Without a pool nothing was lent, so waiting would not make any block idle. Owners keep what an
  // earlier division prepared.
  if (busy && pool_->ordered()) return Readiness::kBusy;
  std::vector<const void*> fresh;
  for (const Need* need : missing) {
    Block* const block = Allocate(need->bytes, Use::kStream);
    if (block != nullptr) {
      block->owner = need->owner;
      block->prepared = true;
      fresh.push_back(block->segment.data);
      continue;
    }
    MakeRoom(kAll, [&](const Block& other) {
      return std::find(fresh.begin(), fresh.end(), other.segment.data) == fresh.end();
    });
    short_from_ = kAll;
    return Readiness::kShort;
  }
  for (const Need& need : needs) Note(need.owner.handle);
  return Readiness::kReady;
}

void Arena::Fix() {
  MutexLock lock(mutex_);
  fixed_ = true;
}

Arena::Segment Arena::Take(const ArenaOwner& owner, size_t bytes, CUstream stream) {
  MutexLock lock(mutex_);
  if (!fixed_) return {};
  const auto in_vain = std::find_if(in_vain_.begin(), in_vain_.end(),
                                    [&](const Need& need) { return need.owner == owner; });
  if (in_vain != in_vain_.end()) {
    if (!IsShort() && in_vain->bytes <= Left() + Soon(owner))
      bytes = std::max(bytes, in_vain->bytes);
    in_vain_.erase(in_vain);
  }
  Block* block = Find(owner, bytes);
  if (block == nullptr) {
    MakeRoom(bytes, [](const Block&) { return false; });
    block = Allocate(bytes, Use::kStream);
  }
  if (block == nullptr) {
    if (!IsShort() && bytes <= Left() + Soon(owner)) {
      GiveUp(owner, nullptr, stream);
      in_vain_.push_back({owner, bytes});
    }
    return {};
  }
  assert(block->segment.bytes >= bytes && !block->given_up);
  block->owner = owner;
  Note(owner.handle);
  GiveUp(owner, block, stream);
  return block->segment;
}

bool Arena::ReserveForCapture(size_t bytes) {
  MutexLock lock(mutex_);
  const bool ready = std::any_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return block.use == Use::kReady && block.segment.bytes >= bytes;
  });
  if (ready) return true;
  MakeRoom(bytes, [](const Block& other) { return other.prepared; });
  return Allocate(bytes, Use::kReady) != nullptr;
}

Arena::Block* Arena::FindCaptured(const cuda::Capture& capture, const ArenaOwner& owner,
                                  size_t bytes) {
  const auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& other) {
    return other.use == Use::kCapture && other.hold.IsOf(capture) && other.owner == owner &&
           other.segment.bytes >= bytes;
  });
  return block == blocks_.end() ? nullptr : &*block;
}

Arena::Segment Arena::GiveToCapture(Block& block, const cuda::Capture& capture,
                                    const ArenaOwner& owner) {
  block.hold = cuda::CaptureHold(driver_, capture);
  block.use = Use::kCapture;
  block.owner = owner;
  return block.segment;
}

Arena::Segment Arena::TakeForCapture(const cuda::Capture& capture, const ArenaOwner& owner,
                                     size_t bytes) {
  MutexLock lock(mutex_);
  if (const Block* const own = FindCaptured(capture, owner, bytes)) return own->segment;
  Block* smallest = nullptr;
  for (Block& block : blocks_) {
    const bool is_ready = block.use == Use::kReady || IsLeft(block);
    if (block.segment.bytes < bytes || !is_ready) continue;
    if (smallest == nullptr || block.segment.bytes < smallest->segment.bytes) smallest = &block;
  }
  return smallest == nullptr ? Segment() : GiveToCapture(*smallest, capture, owner);
}

Arena::Block* Arena::FindUse(Use use) {
  const auto block = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const Block& other) { return other.use == use; });
  return block == blocks_.end() ? nullptr : &*block;
}

bool Arena::Assure(size_t bytes) {
  if (IsAssured(bytes)) return true;
  MutexLock lock(mutex_);
  const cuda::ContextScope context(driver_, context_);
  const cuda::RelaxedCaptureScope relaxed(driver_);
  const bool enough = bytes <= assured_bytes() || AssureCalls(bytes);
  if (assured_bytes() > 0 && FindUse(Use::kAssuredCapture) == nullptr) {
    MakeRoom(assured_bytes(), [](const Block& other) { return other.prepared; });
    Allocate(assured_bytes(), Use::kAssuredCapture);
  }
  // If there was no memory for a segment, Free sets the flag again once it has freed memory.
  capture_took_.store(false, std::memory_order_release);
  return enough;
}

bool Arena::AssureCalls(size_t bytes) {
  // No capture has used a segment that is still set aside for captures, so it can be freed. Without
  // a pool it is kept, because freeing it would wait for the device.
  if (HasPool()) Free([](const Block& block) { return block.use == Use::kAssuredCapture; });
  MakeRoom(bytes, [](const Block& other) { return other.prepared; });
  const Block* const fresh = Allocate(bytes, Use::kAssured);
  if (fresh == nullptr) return false;
  for (Block& former : blocks_) {
    if (former.use != Use::kAssured || &former == fresh) continue;
    former.use = Use::kStream;
    former.given_up = true;
  }
  assured_bytes_.store(bytes, std::memory_order_release);
  return true;
}

Arena::Segment Arena::BorrowAssured(const ArenaOwner& owner, size_t bytes, CUstream stream) {
  MutexLock lock(mutex_);
  const cuda::ContextScope context(driver_, context_);
  const cuda::RelaxedCaptureScope relaxed(driver_);
  Block *own = nullptr, *idle = nullptr, *busy = nullptr;
  for (Block& one : blocks_) {
    const bool serves = one.use == Use::kAssured && one.segment.bytes >= bytes;
    if (!serves || one.loans > 0 || one.lost) continue;
    const bool over = one.over == nullptr || driver_.cuEventQuery(one.over) == CUDA_SUCCESS;
    (one.owner == owner ? own : over ? idle : busy) = &one;
  }
  Block* block = own != nullptr ? own : idle;
  if (block == nullptr) {
    MakeRoom(bytes, [](const Block& other) { return other.prepared; });
    block = Allocate(std::max(bytes, assured_bytes()), Use::kAssured, Bound::kDevice);
  }
  if (block == nullptr && busy != nullptr &&
      driver_.cuStreamWaitEvent(stream, busy->over, 0) == CUDA_SUCCESS) {
    block = busy;
  }
  if (block == nullptr) return {};
  block->owner = owner;
  ++block->loans;
  return block->segment;
}

Arena::Segment Arena::TakeAssuredForCapture(const cuda::Capture& capture, const ArenaOwner& owner,
                                            size_t bytes) {
  const Segment ready = TakeForCapture(capture, owner, bytes);
  if (ready.data != nullptr) return ready;
  MutexLock lock(mutex_);
  Block* block = FindUse(Use::kAssuredCapture);
  if (block != nullptr && block->segment.bytes >= bytes) {
    capture_took_.store(true, std::memory_order_release);
  } else {
    MakeRoom(bytes, [](const Block& other) { return other.prepared; });
    block = Allocate(bytes, Use::kReady, Bound::kDevice);
  }
  return block == nullptr ? Segment() : GiveToCapture(*block, capture, owner);
}

uint64_t Arena::Leave(const void* handle) {
  MutexLock lock(mutex_);
  ++leaves_;
  for (Block& block : blocks_) {
    const bool owned = block.use == Use::kStream || block.use == Use::kCapture;
    if (!owned || block.owner.handle != handle) continue;
    block.owner.handle = nullptr;
    block.left = leaves_;
  }
  std::erase(handles_, handle);
  std::erase_if(in_vain_, [&](const Need& need) { return need.owner.handle == handle; });
  return leaves_;
}

bool Arena::Waited(uint64_t leave) {
  MutexLock lock(mutex_);
  Free([&](const Block& block) {
    mutex_.AssertHeld();
    if (block.use == Use::kReady || IsLeft(block)) return handles_.empty();
    if (block.use == Use::kCapture) return false;
    return block.left > 0 && block.left <= leave;
  });
  return handles_.empty();
}

bool Arena::Has(const ArenaOwner& owner, size_t bytes) const {
  MutexLock lock(mutex_);
  return Own(owner) >= bytes;
}

size_t Arena::CopiesOf(int kernel) const {
  MutexLock lock(mutex_);
  return std::count_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return block.use == Use::kStream && block.owner.kernel == kernel && !block.given_up;
  });
}

bool Arena::short_of_memory() {
  MutexLock lock(mutex_);
  return IsShort();
}

size_t Arena::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

size_t Arena::capture_bytes() const {
  MutexLock lock(mutex_);
  size_t bytes = 0;
  for (const Block& block : blocks_) {
    const bool calls = block.use == Use::kStream || block.use == Use::kAssured;
    if (!calls) bytes += block.segment.bytes;
  }
  return bytes;
}

size_t Arena::set_aside_bytes() const {
  MutexLock lock(mutex_);
  size_t bytes = 0;
  for (const Block& block : blocks_) {
    if (block.use != Use::kStream) bytes += block.segment.bytes;
  }
  return bytes;
}

size_t Arena::left() const {
  MutexLock lock(mutex_);
  return Left();
}

size_t Arena::lost_bytes() const {
  MutexLock lock(mutex_);
  size_t lost = 0;
  for (const Block& block : blocks_) {
    if (block.lost && !block.prepared) lost += block.segment.bytes;
  }
  return lost;
}

}  // namespace ucudnn::interposer
