#include "execution/arena.h"

#include <algorithm>
#include <string>

#include "cuda/resources.h"

namespace ucudnn::execution {

Result<Arena::Block*> Arena::Allocate(size_t bytes, Block::Use use) {
  if (bytes > limit_bytes_ - bytes_) {
    return Status::Error(std::to_string(bytes) + " bytes of workspace exceed the " +
                         std::to_string(limit_bytes_ - bytes_) + " left of the library's " +
                         std::to_string(limit_bytes_));
  }
  blocks_.reserve(blocks_.size() + 1);
  const cuda::ContextScope context(driver_, context_);
  const cuda::RelaxedCaptureScope relaxed(driver_);
  CUdeviceptr address = 0;
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(driver_, driver_.cuMemAlloc(&address, bytes),
                                            "allocating the library's workspace"));
  bytes_ += bytes;
  Block& block = blocks_.emplace_back();
  block.segment = {reinterpret_cast<void*>(address), bytes};
  block.use = use;
  return &block;
}

Result<Arena::Segment> Arena::Take(const ArenaUser& user, size_t bytes) {
  std::lock_guard lock(mutex_);
  for (const Block& block : blocks_) {
    const bool own = block.use == Block::Use::kStream && block.user == user;
    if (own && block.segment.bytes >= bytes) return block.segment;
  }
  if (std::find(handles_.begin(), handles_.end(), user.handle) == handles_.end()) {
    handles_.push_back(user.handle);
  }
  UCUDNN_ASSIGN_OR_RETURN(Block* const block, Allocate(bytes, Block::Use::kStream));
  block->user = user;
  return block->segment;
}

Status Arena::ReserveForCapture(size_t bytes) {
  std::lock_guard lock(mutex_);
  const bool ready = std::any_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return block.use == Block::Use::kReady && block.segment.bytes >= bytes;
  });
  return ready ? Status::Ok() : Allocate(bytes, Block::Use::kReady).status();
}

Arena::Segment Arena::TakeForCapture(size_t bytes) {
  std::lock_guard lock(mutex_);
  Block* smallest = nullptr;
  for (Block& block : blocks_) {
    if (block.use != Block::Use::kReady || block.segment.bytes < bytes) continue;
    if (smallest == nullptr || block.segment.bytes < smallest->segment.bytes) smallest = &block;
  }
  if (smallest == nullptr) return {};
  smallest->use = Block::Use::kCapture;
  return smallest->segment;
}

void Arena::Free(bool all) {
  const cuda::ContextScope context(driver_, context_);
  const cuda::RelaxedCaptureScope relaxed(driver_);
  std::erase_if(blocks_, [&](const Block& block) {
    if (block.use == Block::Use::kCapture && !all) return false;
    driver_.cuMemFree(reinterpret_cast<CUdeviceptr>(block.segment.data));
    bytes_ -= block.segment.bytes;
    return true;
  });
}

void Arena::Release(const void* handle) {
  std::lock_guard lock(mutex_);
  if (std::erase(handles_, handle) > 0 && handles_.empty()) Free(false);
}

size_t Arena::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace ucudnn::execution
