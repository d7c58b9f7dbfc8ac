// Promises given by this process. They belong to the process, not to a handle: frameworks ask on
// one thread's handle and run on another's. Thread-safe; a lock is taken when a promise is given
// and when a handle first meets a kernel, never by a call that was met before.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "convolution/problem.h"
#include "planning/promise.h"

namespace ucudnn::interposer {

// What a caller names when it asks and when it runs.
struct PromiseKey {
  int platform = 0;            // index of the platform the handle is on
  int algorithm = 0;           // as reported
  ConvolutionProblem problem;  // with the reported math type
  bool operator==(const PromiseKey&) const = default;
};

class PromiseBook {
 public:
  // All promises for one key. Keeps its address; read through the book.
  class Page {
   public:
    // Rises with every new promise: a decision taken before may miss one.
    uint64_t version() const { return version_.load(std::memory_order_acquire); }

   private:
    friend class PromiseBook;
    std::atomic<uint64_t> version_ = 0;
    std::vector<planning::Promise> promises_;
  };

  const Page& PageOf(const PromiseKey& key);

  void Add(const PromiseKey& key, planning::Promise promise);

  // The fastest promise given for `key` that needs at most `workspace_bytes`.
  std::optional<planning::Promise> Find(const PromiseKey& key, size_t workspace_bytes);

  // The undivided algorithm behind that promise, without allocating: what keeps it when memory is
  // out.
  std::optional<int> FindUndivided(const PromiseKey& key, size_t workspace_bytes);

  // The workspace last reported for `key`: what a caller who reads it again must see.
  std::optional<size_t> LastReported(const PromiseKey& key);

 private:
  struct KeyHash {
    size_t operator()(const PromiseKey& key) const {
      return key.problem.Hash() + 31 * key.platform + key.algorithm;
    }
  };
  const planning::Promise* Fastest(const PromiseKey& key, size_t workspace_bytes) const;

  std::mutex mutex_;
  std::unordered_map<PromiseKey, Page, KeyHash> pages_;
};

}  // namespace ucudnn::interposer
