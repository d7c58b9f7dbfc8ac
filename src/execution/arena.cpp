#include "execution/arena.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "cuda/resources.h"

namespace ucudnn::execution {
namespace {

constexpr size_t kAll = std::numeric_limits<size_t>::max();  // more than fits

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

Arena::Block* Arena::Allocate(size_t bytes, Use use) {
  if (bytes == 0 || bytes > Left() || bytes >= short_from_) return nullptr;
  blocks_.reserve(blocks_.size() + 1);
  const cuda::ContextScope context(driver_, context_);
  const cuda::RelaxedCaptureScope relaxed(driver_);
  HasPool();
  CUdeviceptr address = 0;
  if (pool_->Allocate(&address, bytes) != CUDA_SUCCESS) {
    // Memory for captures is a reserve: failing to get it says nothing about what calls can get.
    if (use != Use::kReady) short_from_ = bytes;
    return nullptr;
  }
  // The pool keeps memory for its own stream; given back to the device, it can serve other streams.
  pool_->GiveBack();
  bytes_ += bytes;
  assert(bytes_ <= limit_bytes_);
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
}

bool Arena::IsIdle(const Block& block) const {
  if (block.use != Use::kStream || block.loans > 0 || block.lost) return false;
  // An owner that remembers its segment may use it without a word.
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
  // Work of one owner is ordered: what is behind its latest work is behind all of it.
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
    // Without a pool, loans could not be given back without waiting for the device.
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
  // Owners may remember their segments by now, so none is given back.
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
  // Without a pool nothing was lent, so no block will become free: what an earlier division
  // prepared is left to its owners.
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

Arena::Segment Arena::TakeForCapture(uint64_t capture, const ArenaOwner& owner, size_t bytes) {
  MutexLock lock(mutex_);
  Block* smallest = nullptr;
  for (Block& block : blocks_) {
    if (block.segment.bytes < bytes) continue;
    if (block.use == Use::kCapture && block.capture == capture && block.owner == owner) {
      return block.segment;
    }
    if (block.use != Use::kReady) continue;
    if (smallest == nullptr || block.segment.bytes < smallest->segment.bytes) smallest = &block;
  }
  if (smallest == nullptr) return {};
  smallest->use = Use::kCapture;
  smallest->capture = capture;
  smallest->owner = owner;
  return smallest->segment;
}

uint64_t Arena::Leave(const void* handle) {
  MutexLock lock(mutex_);
  ++leaves_;
  for (Block& block : blocks_) {
    if (block.use == Use::kReady || block.owner.handle != handle) continue;
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
    if (block.use == Use::kCapture) return false;
    if (block.use == Use::kReady) return handles_.empty();
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

}  // namespace ucudnn::execution
