#include "interposer/graph/kept_promises.h"

#include <algorithm>
#include <tuple>

#include "base/log.h"

namespace ucudnn::interposer {

using planning::EnginePromise;

EnginePromise* KeptPromises::FindEqual(const EnginePromise& asked) {
  const auto promises = known_.find(asked.problem.Hash());
  if (promises == known_.end()) return nullptr;
  const auto key = [](const EnginePromise& promise) {
    return std::tie(promise.problem, promise.platform, promise.engine, promise.limit_bytes);
  };
  const auto same = std::find_if(promises->second.begin(), promises->second.end(),
                                 [&](const auto& other) { return key(other) == key(asked); });
  return same == promises->second.end() ? nullptr : &*same;
}

std::optional<EnginePromise> KeptPromises::Find(const EnginePromise& asked) {
  {
    MutexLock lock(mutex_);
    if (const EnginePromise* known = FindEqual(asked)) return *known;
  }
  if (store_ == nullptr) return std::nullopt;
  const Result<std::optional<EnginePromise>> stored = store_->FindPromise(asked);
  if (!stored.ok()) {
    WarnOnce("store promise", "earlier promises cannot be read: " + stored.message());
    return std::nullopt;
  }
  if (!*stored) return std::nullopt;
  // From now on this process keeps the promise, even if the store fails later.
  MutexLock lock(mutex_);
  if (const EnginePromise* known = FindEqual(asked)) return *known;
  known_[asked.problem.Hash()].push_back(**stored);
  return *stored;
}

EnginePromise KeptPromises::Keep(const EnginePromise& promise) {
  EnginePromise kept = promise;
  if (store_ != nullptr) {
    const Result<EnginePromise> stored = store_->KeepPromise(promise);
    if (stored.ok()) {
      kept = *stored;
    } else {
      WarnOnce("store promise kept", "promises cannot be stored: " + stored.message());
    }
  }
  MutexLock lock(mutex_);
  if (const EnginePromise* known = FindEqual(promise)) return *known;
  known_[promise.problem.Hash()].push_back(kept);
  return kept;
}

void KeptPromises::Replace(const EnginePromise& promise) {
  MutexLock lock(mutex_);
  if (EnginePromise* known = FindEqual(promise)) {
    *known = promise;
  } else {
    known_[promise.problem.Hash()].push_back(promise);
  }
}

}  // namespace ucudnn::interposer
