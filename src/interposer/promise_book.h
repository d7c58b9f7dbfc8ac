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

// Kernels (of an algorithm and a problem) that a process remembers, at a few KiB each: a program
// whose shapes never repeat must not grow for ever.
constexpr size_t kMostKernels = 10000;

class PromiseBook {
 public:
  // All promises for one key. Keeps its address; read through the book.
  class Page {
   public:
    // Rises with every new promise: a decision taken before may miss one.
    uint64_t version() const { return version_.load(std::memory_order_acquire); }

    // Calls of this key on all handles, as far as they were counted.
    std::atomic<long> calls = 0;
    // A piece failed, or was found wrong: on no handle a plan of this key divides again where
    // something undivided can take its place.
    std::atomic<bool> failed = false;

   private:
    friend class PromiseBook;
    std::atomic<uint64_t> version_ = 0;
    std::vector<planning::Promise> promises_;
  };

  Page& PageOf(const PromiseKey& key);

  // Whether there are kMostKernels pages. The book takes more, but those who fill it should not
  // open one then.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  bool Knows(const PromiseKey& key) const;
  // Whether there is a page for any algorithm.
  bool Knows(int platform, const ConvolutionProblem& problem) const;

  void Add(const PromiseKey& key, planning::Promise promise);

  // The fastest promise given for `key` that needs at most `workspace_bytes`.
  std::optional<planning::Promise> Find(const PromiseKey& key, size_t workspace_bytes);

  // The same for a call that only the reported algorithm serves: pieces of it alone, and nothing to
  // take their place.
  std::optional<planning::Promise> FindAlone(const PromiseKey& key, size_t workspace_bytes);

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
  // `alone`: of those that the reported algorithm can keep alone.
  const planning::Promise* Fastest(const PromiseKey& key, size_t workspace_bytes,
                                   bool alone = false) const;

  // The page of `key`, made when there is none; under the mutex.
  Page& Open(const PromiseKey& key);

  mutable std::mutex mutex_;
  std::unordered_map<PromiseKey, Page, KeyHash> pages_;
  std::atomic<bool> full_ = false;
};

}  // namespace ucudnn::interposer
