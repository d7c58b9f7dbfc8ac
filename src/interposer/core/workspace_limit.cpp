#include "interposer/core/workspace_limit.h"

#include <algorithm>
#include <bit>

#include "cuda/resources.h"

namespace ucudnn::interposer {

void WorkspaceLimit::Set(size_t bytes) {
  limit_ = bytes;
  is_auto_.store(false, std::memory_order_release);
}

size_t WorkspaceLimit::set_bytes() const {
  return is_auto_.load(std::memory_order_acquire) ? kNoLimit : limit_.load();
}

size_t WorkspaceLimit::Of(CUcontext context) {
  if (!is_auto_.load(std::memory_order_acquire)) return limit_.load();
  size_t limit = auto_limit_.load(std::memory_order_relaxed);
  if (limit != kNoLimit) return limit;
  const cuda::ContextScope scope(*driver_, context);
  const cuda::RelaxedCaptureScope relaxed(*driver_);
  size_t free_bytes = 0, total_bytes = 0;
  if (driver_->cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS) return kNoLimit;
  // The limit is a quarter of the free memory, rounded down to a power of two. Processes on devices
  // of one model find slightly different amounts of free memory; the rounding gives them the same
  // limit.
  limit = std::bit_floor(free_bytes / 4);
  size_t expected = kNoLimit;
  auto_limit_.compare_exchange_strong(expected, limit);
  return std::min(limit, expected);
}

void WorkspaceLimit::FallTo(size_t bytes) {
  size_t limit = auto_limit_.load();
  while (bytes < limit && !auto_limit_.compare_exchange_weak(limit, bytes)) {
  }
}

}  // namespace ucudnn::interposer
