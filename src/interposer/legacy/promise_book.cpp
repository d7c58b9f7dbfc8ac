#include "interposer/legacy/promise_book.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "cudnn/legacy_engines.h"
#include "planning/owned_promise.h"

namespace ucudnn::interposer {
namespace {

// Forward has the most algorithms of all operations.
constexpr int kMostAlgorithms = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;

// Returns the time of the plan; infinity if it is unknown.
double Time(const planning::Promise& promise) {
  const double time_ms = promise.configuration.TimeMs();
  return time_ms < 0 ? std::numeric_limits<double>::infinity() : time_ms;
}

}  // namespace

PromiseBook::Entry& PromiseBook::Open(const PromiseKey& key) {
  Entry& entry = pages_[key];
  if (pages_.size() >= kMostKernels) full_.store(true, std::memory_order_relaxed);
  return entry;
}

PromiseBook::Page& PromiseBook::PageOf(const PromiseKey& key) {
  MutexLock lock(mutex_);
  return Open(key).page;
}

bool PromiseBook::Knows(const PromiseKey& key) const {
  MutexLock lock(mutex_);
  return pages_.contains(key);
}

bool PromiseBook::Knows(int platform, const ConvolutionProblem& problem) const {
  for (int algorithm = 0; algorithm < kMostAlgorithms; ++algorithm) {
    if (Knows(PromiseKey{platform, algorithm, problem})) return true;
  }
  return false;
}

void PromiseBook::Add(const PromiseKey& key, planning::Promise promise) {
  assert(promise.configuration.WorkspaceBytes() <=
         std::max(promise.workspace_bytes, promise.owned_bytes));
  assert(promise.undivided.workspace_bytes <= promise.workspace_bytes);
  MutexLock lock(mutex_);
  Entry& entry = Open(key);
  std::vector<planning::Promise>& given = entry.promises;
  // A framework that asks before every step is given the same promise again. The promise is not
  // added twice, but becomes the latest one.
  const auto same = std::find_if(given.begin(), given.end(), [&](const planning::Promise& old) {
    return old.workspace_bytes == promise.workspace_bytes &&
           old.configuration == promise.configuration &&
           old.reported.deterministic == promise.reported.deterministic &&
           old.alone == promise.alone;
  });
  if (same != given.end()) {
    std::rotate(same, same + 1, given.end());
    return;
  }
  given.push_back(std::move(promise));
  entry.page.latest.fetch_add(1, std::memory_order_release);
}

const planning::Promise* PromiseBook::Fastest(const PromiseKey& key, size_t workspace_bytes,
                                              bool alone) const {
  const auto entry = pages_.find(key);
  if (entry == pages_.end()) return nullptr;
  const planning::Promise* best = nullptr;
  for (const planning::Promise& promise : entry->second.promises) {
    if (promise.workspace_bytes > workspace_bytes) continue;
    if (alone && promise.alone.runs.empty()) continue;
    // A call does not show which of several promises it relies on. If one of these promises was
    // reported as deterministic, only deterministic promises are used.
    const bool stricter =
        best != nullptr && promise.reported.deterministic && !best->reported.deterministic;
    const bool laxer =
        best != nullptr && !promise.reported.deterministic && best->reported.deterministic;
    if (laxer) continue;
    if (best == nullptr || stricter || Time(promise) < Time(*best)) best = &promise;
  }
  return best;
}

std::optional<planning::Promise> PromiseBook::Find(const PromiseKey& key, size_t workspace_bytes) {
  MutexLock lock(mutex_);
  const planning::Promise* const best = Fastest(key, workspace_bytes);
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::optional<planning::Promise> PromiseBook::FindAlone(const PromiseKey& key,
                                                        size_t workspace_bytes) {
  MutexLock lock(mutex_);
  const planning::Promise* const best = Fastest(key, workspace_bytes, true);
  if (best == nullptr) return std::nullopt;
  return planning::Alone(*best);
}

std::optional<int> PromiseBook::FindUndivided(const PromiseKey& key, size_t workspace_bytes) {
  MutexLock lock(mutex_);
  const planning::Promise* const best = Fastest(key, workspace_bytes);
  if (best == nullptr) return std::nullopt;
  const EngineId::Legacy* const engine = best->undivided.engine.legacy();
  if (engine == nullptr) return std::nullopt;
  return engine->algorithm;
}

std::optional<PromiseBook::Reported> PromiseBook::LastReported(const PromiseKey& key) {
  MutexLock lock(mutex_);
  const auto entry = pages_.find(key);
  if (entry == pages_.end() || entry->second.promises.empty()) return std::nullopt;
  const planning::Promise& last = entry->second.promises.back();
  return Reported{last.workspace_bytes, planning::AssuredBytes(last)};
}

}  // namespace ucudnn::interposer
