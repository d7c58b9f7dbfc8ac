#include "interposer/promise_book.h"

#include <algorithm>
#include <utility>

namespace ucudnn::interposer {

void PromiseBook::Add(const PromiseKey& key, planning::Promise promise) {
  std::lock_guard lock(mutex_);
  std::vector<planning::Promise>& given = promises_[key];
  // The same again (a framework asks at every start of a step) only becomes the last one.
  const auto same = std::find_if(given.begin(), given.end(), [&](const planning::Promise& old) {
    return old.workspace_bytes == promise.workspace_bytes && old.plan == promise.plan;
  });
  if (same != given.end()) {
    std::rotate(same, same + 1, given.end());
    return;
  }
  given.push_back(std::move(promise));
  epoch_.fetch_add(1, std::memory_order_release);
}

std::optional<planning::Promise> PromiseBook::Find(const PromiseKey& key, size_t workspace_bytes) {
  std::lock_guard lock(mutex_);
  const auto entry = promises_.find(key);
  if (entry == promises_.end()) return std::nullopt;
  const planning::Promise* best = nullptr;
  for (const planning::Promise& promise : entry->second) {
    if (promise.workspace_bytes > workspace_bytes) continue;
    if (best == nullptr || promise.plan.TimeMs() < best->plan.TimeMs()) best = &promise;
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::optional<size_t> PromiseBook::LastReported(const PromiseKey& key) {
  std::lock_guard lock(mutex_);
  const auto entry = promises_.find(key);
  if (entry == promises_.end()) return std::nullopt;
  return entry->second.back().workspace_bytes;
}

}  // namespace ucudnn::interposer
