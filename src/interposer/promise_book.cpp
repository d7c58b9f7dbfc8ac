#include "interposer/promise_book.h"

#include <algorithm>
#include <utility>

#include "cudnn/legacy_engines.h"

namespace ucudnn::interposer {

const PromiseBook::Page& PromiseBook::PageOf(const PromiseKey& key) {
  std::lock_guard lock(mutex_);
  return pages_[key];
}

void PromiseBook::Add(const PromiseKey& key, planning::Promise promise) {
  std::lock_guard lock(mutex_);
  Page& page = pages_[key];
  std::vector<planning::Promise>& given = page.promises_;
  // The same again (a framework asks at every start of a step) only becomes the last one.
  const auto same = std::find_if(given.begin(), given.end(), [&](const planning::Promise& old) {
    return old.workspace_bytes == promise.workspace_bytes && old.plan == promise.plan;
  });
  if (same != given.end()) {
    std::rotate(same, same + 1, given.end());
    return;
  }
  given.push_back(std::move(promise));
  page.version_.fetch_add(1, std::memory_order_release);
}

const planning::Promise* PromiseBook::Fastest(const PromiseKey& key, size_t workspace_bytes) const {
  const auto entry = pages_.find(key);
  if (entry == pages_.end()) return nullptr;
  const planning::Promise* best = nullptr;
  for (const planning::Promise& promise : entry->second.promises_) {
    if (promise.workspace_bytes > workspace_bytes) continue;
    if (best == nullptr || promise.plan.TimeMs() < best->plan.TimeMs()) best = &promise;
  }
  return best;
}

std::optional<planning::Promise> PromiseBook::Find(const PromiseKey& key, size_t workspace_bytes) {
  std::lock_guard lock(mutex_);
  const planning::Promise* const best = Fastest(key, workspace_bytes);
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::optional<int> PromiseBook::FindUndivided(const PromiseKey& key, size_t workspace_bytes) {
  std::lock_guard lock(mutex_);
  const planning::Promise* const best = Fastest(key, workspace_bytes);
  if (best == nullptr) return std::nullopt;
  const std::optional<cudnn::LegacyEngine> engine =
      cudnn::ParseLegacyEngine(best->undivided.engine);
  if (!engine) return std::nullopt;
  return engine->algorithm;
}

std::optional<size_t> PromiseBook::LastReported(const PromiseKey& key) {
  std::lock_guard lock(mutex_);
  const auto entry = pages_.find(key);
  if (entry == pages_.end() || entry->second.promises_.empty()) return std::nullopt;
  return entry->second.promises_.back().workspace_bytes;
}

}  // namespace ucudnn::interposer
