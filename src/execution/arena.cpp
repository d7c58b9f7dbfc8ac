#include "execution/arena.h"

#include <algorithm>
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

Arena::Block* Arena::Allocate(size_t bytes, Use use) {
  if (short_ || bytes == 0 || bytes > left()) return nullptr;
  blocks_.reserve(blocks_.size() + 1);
  const cuda::ContextScope context(driver_, context_);
  const cuda::RelaxedCaptureScope relaxed(driver_);
  CUdeviceptr address = 0;
  if (driver_.cuMemAlloc(&address, bytes) != CUDA_SUCCESS) {
    short_ = true;
    return nullptr;
  }
  bytes_ += bytes;
  Block& block = blocks_.emplace_back();
  block.segment = {reinterpret_cast<void*>(address), bytes};
  block.use = use;
  return &block;
}

void Arena::FreeBlock(Block& block) {
  if (block.over != nullptr) driver_.cuEventDestroy(block.over);
  driver_.cuMemFree(reinterpret_cast<CUdeviceptr>(block.segment.data));
  bytes_ -= block.segment.bytes;
}

bool Arena::IsIdle(const Block& block) const {
  if (block.use != Use::kStream || block.loans > 0 || block.lost) return false;
  return block.over == nullptr || driver_.cuEventQuery(block.over) == CUDA_SUCCESS;
}

Arena::Block* Arena::Find(const ArenaOwner& owner, size_t bytes) {
  Block* smallest = nullptr;
  for (Block& block : blocks_) {
    if (block.use != Use::kStream || block.owner != owner || block.segment.bytes < bytes) continue;
    if (smallest == nullptr || block.segment.bytes < smallest->segment.bytes) smallest = &block;
  }
  return smallest;
}

template <typename Spared>
void Arena::MakeRoom(size_t bytes, Spared spared) {
  const cuda::ContextScope context(driver_, context_);
  const cuda::RelaxedCaptureScope relaxed(driver_);
  std::erase_if(blocks_, [&](Block& block) {
    if (bytes <= left() || spared(block) || !IsIdle(block)) return false;
    FreeBlock(block);
    return true;
  });
}

void Arena::Note(const void* handle) {
  if (std::find(handles_.begin(), handles_.end(), handle) == handles_.end()) {
    handles_.push_back(handle);
  }
}

size_t Arena::Owned(const ArenaOwner& owner) {
  std::lock_guard lock(mutex_);
  size_t own = 0;
  for (const Block& block : blocks_) {
    if (block.use == Use::kStream && block.owner == owner) own = std::max(own, block.segment.bytes);
  }
  return own;
}

size_t Arena::Available(const ArenaOwner& owner) {
  std::lock_guard lock(mutex_);
  const cuda::ContextScope context(driver_, context_);
  const cuda::RelaxedCaptureScope relaxed(driver_);
  size_t own = 0, idle = 0;
  for (const Block& block : blocks_) {
    if (block.use == Use::kStream && block.owner == owner) own = std::max(own, block.segment.bytes);
    if (!fixed_ && !block.prepared && IsIdle(block)) idle += block.segment.bytes;
  }
  return std::max(own, short_ ? idle : idle + left());
}

Arena::Segment Arena::Borrow(const ArenaOwner& owner, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (fixed_) return {};
  Block* block = Find(owner, bytes);
  if (block == nullptr) {
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
  std::lock_guard lock(mutex_);
  const auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& other) {
    return other.segment.data == segment.data;
  });
  if (block == blocks_.end()) return;
  --block->loans;
  const cuda::ContextScope context(driver_, context_);
  if (block->over == nullptr &&
      driver_.cuEventCreate(&block->over, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
    block->over = nullptr;
    block->lost = true;
  } else if (driver_.cuEventRecord(block->over, stream) != CUDA_SUCCESS) {
    block->lost = true;
  }
}

Arena::Readiness Arena::Prepare(std::span<const Need> needs) {
  std::lock_guard lock(mutex_);
  // Owners may remember their segments.
  if (fixed_) return Readiness::kReady;
  std::vector<const Need*> missing;
  short_ = false;
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
    return block.use == Use::kStream && !block.prepared;
  });
  if (busy) return Readiness::kBusy;
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
    short_ = false;
    return Readiness::kShort;
  }
  for (const Need& need : needs) Note(need.owner.handle);
  return Readiness::kReady;
}

void Arena::Fix() {
  std::lock_guard lock(mutex_);
  fixed_ = true;
}

Arena::Segment Arena::Take(const ArenaOwner& owner, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (!fixed_) return {};
  Block* block = Find(owner, bytes);
  if (block == nullptr) {
    // Of a handle that is gone, on the same stream: what it enqueued runs before.
    ArenaOwner former = owner;
    former.handle = nullptr;
    block = Find(former, bytes);
  }
  if (block == nullptr) block = Allocate(bytes, Use::kStream);
  if (block == nullptr) return {};
  block->owner = owner;
  Note(owner.handle);
  return block->segment;
}

bool Arena::ReserveForCapture(size_t bytes) {
  std::lock_guard lock(mutex_);
  const bool ready = std::any_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return block.use == Use::kReady && block.segment.bytes >= bytes;
  });
  return ready || Allocate(bytes, Use::kReady) != nullptr;
}

Arena::Segment Arena::TakeForCapture(uint64_t capture, const ArenaOwner& owner, size_t bytes) {
  std::lock_guard lock(mutex_);
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

void Arena::Free(bool all) {
  const cuda::ContextScope context(driver_, context_);
  const cuda::RelaxedCaptureScope relaxed(driver_);
  std::erase_if(blocks_, [&](Block& block) {
    if (block.use == Use::kCapture && !all) return false;
    FreeBlock(block);
    return true;
  });
}

void Arena::Release(const void* handle) {
  std::lock_guard lock(mutex_);
  for (Block& block : blocks_) {
    if (block.owner.handle == handle) block.owner.handle = nullptr;
  }
  if (std::erase(handles_, handle) > 0 && handles_.empty()) Free(false);
}

bool Arena::short_of_memory() {
  std::lock_guard lock(mutex_);
  return short_;
}

size_t Arena::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace ucudnn::execution
