#include "interposer/session/lanes.h"

#include <algorithm>
#include <cassert>

namespace ucudnn::interposer {

uint64_t Lanes::BitOf(const void* owner, bool ordered, CUstream stream) {
  assert(owner != nullptr);
  if (ordered || stream == CU_STREAM_LEGACY) stream = nullptr;
  MutexLock lock(mutex_);
  const auto end = lanes_.begin() + count_;
  const Lane wanted = {owner, ordered, stream};
  auto lane = std::find(lanes_.begin(), end, wanted);
  if (lane == end) lane = std::find(lanes_.begin(), end, Lane{nullptr, ordered, stream});
  if (lane == end) {
    if (count_ == kOthers) return uint64_t{1} << kOthers;
    ++count_;
  }
  *lane = wanted;
  return uint64_t{1} << (lane - lanes_.begin());
}

void Lanes::Leave(const void* handle) {
  MutexLock lock(mutex_);
  for (int lane = 0; lane < count_; ++lane) {
    if (lanes_[lane].owner == handle) lanes_[lane].owner = nullptr;
  }
}

}  // namespace ucudnn::interposer
