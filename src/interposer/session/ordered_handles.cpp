#include "interposer/session/ordered_handles.h"

#include <algorithm>

namespace ucudnn::interposer {

OrderedHandles::Lane OrderedHandles::Join(const void* first, const void* second) {
  const auto is_met = [&](const std::set<const void*>& lane) {
    return lane.contains(first) || lane.contains(second);
  };
  std::set<const void*> joined = {first, second};
  for (const std::set<const void*>& lane : lanes_) {
    if (is_met(lane)) joined.insert(lane.begin(), lane.end());
  }
  Lane lane;
  lane.handles.assign(joined.begin(), joined.end());
  auto kept = std::find_if(lanes_.begin(), lanes_.end(), is_met);
  if (kept == lanes_.end()) kept = lanes_.emplace(lanes_.end());
  lane.name = &*kept;
  kept->swap(joined);
  for (auto other = std::next(kept); other != lanes_.end();) {
    other = is_met(*other) ? lanes_.erase(other) : std::next(other);
  }
  return lane;
}

const void* OrderedHandles::NameOf(const void* handle) const {
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(),
                                 [&](const auto& other) { return other.contains(handle); });
  return lane == lanes_.end() ? nullptr : &*lane;
}

const void* OrderedHandles::Leave(const void* handle) {
  for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
    if (lane->erase(handle) == 0 || !lane->empty()) continue;
    const void* const name = &*lane;
    lanes_.erase(lane);
    return name;
  }
  return nullptr;
}

}  // namespace ucudnn::interposer
