// The promises that this process gave to callers of the legacy API. They belong to the process, not
// to a handle, because frameworks ask on one thread's handle and run on another thread's.
// Thread-safe. The lock is taken by queries, by calls that are decided about, by calls without a
// decision, and by calls whose decision cannot run. No other calls take it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "convolution/problem.h"
#include "interposer/core/capacity.h"
#include "interposer/session/promise_page.h"
#include "planning/promise.h"

namespace ucudnn::interposer {

// The key of a promise: values that a caller passes in a query and in the call itself.
struct PromiseKey {
  int platform = 0;            // index of the handle's platform in Sessions
  int algorithm = 0;           // as the caller was told
  ConvolutionProblem problem;  // with the math type that the caller was told
  bool operator==(const PromiseKey&) const = default;
};

class PromiseBook {
 public:
  using Page = PromisePage;
  Page& PageOf(const PromiseKey& key);

  // Returns whether there are kMostKernels pages. The book accepts more, but callers should then
  // open no further pages.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  bool Knows(const PromiseKey& key) const;
  // Returns whether any algorithm has a page for the problem.
  bool Knows(int platform, const ConvolutionProblem& problem) const;

  void Add(const PromiseKey& key, planning::Promise promise);

  // Returns the fastest promise for `key` that needs at most `workspace_bytes`; none if there is no
  // such promise.
  std::optional<planning::Promise> Find(const PromiseKey& key, size_t workspace_bytes);

  // Like Find, for a call that only the reported algorithm can run. The plan of the returned
  // promise consists of pieces of that algorithm, and nothing can replace them.
  std::optional<planning::Promise> FindAlone(const PromiseKey& key, size_t workspace_bytes);

  // Returns the undivided algorithm of the promise that Find would return; none if there is no such
  // promise or it has no undivided algorithm. Allocates nothing, so that it works when host memory
  // is out.
  std::optional<int> FindUndivided(const PromiseKey& key, size_t workspace_bytes);

  // The workspace size that callers were told last for `key` and must be told again, and the size
  // that must be assured to keep this promise (planning::AssuredBytes).
  struct Reported {
    size_t workspace_bytes = 0;
    size_t assured_bytes = 0;
  };
  std::optional<Reported> LastReported(const PromiseKey& key);

 private:
  struct KeyHash {
    size_t operator()(const PromiseKey& key) const {
      return key.problem.Hash() + 31 * key.platform + key.algorithm;
    }
  };
  // If `alone`, considers only promises that the reported algorithm can keep alone.
  const planning::Promise* Fastest(const PromiseKey& key, size_t workspace_bytes,
                                   bool alone = false) const UCUDNN_REQUIRES(mutex_);

  struct Entry {
    Page page;
    std::vector<planning::Promise> promises;
  };
  // Returns the entry of `key`; makes it if there is none.
  Entry& Open(const PromiseKey& key) UCUDNN_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::unordered_map<PromiseKey, Entry, KeyHash> pages_ UCUDNN_GUARDED_BY(mutex_);
  std::atomic<bool> full_ = false;
};

}  // namespace ucudnn::interposer
