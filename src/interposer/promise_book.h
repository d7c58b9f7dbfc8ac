// Promises given by this process. They belong to the process, not to a handle: frameworks ask on
// one thread's handle and run on another's. Thread-safe; consulted when a handle first meets a
// kernel.
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
  void Add(const PromiseKey& key, planning::Promise promise);

  // The fastest promise given for `key` that needs at most `workspace_bytes`.
  std::optional<planning::Promise> Find(const PromiseKey& key, size_t workspace_bytes);

  // The workspace last reported for `key`: what a caller who reads it again must see.
  std::optional<size_t> LastReported(const PromiseKey& key);

  // Rises with every new promise: a decision taken before may miss one.
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }

 private:
  struct KeyHash {
    size_t operator()(const PromiseKey& key) const {
      return key.problem.Hash() + 31 * key.platform + key.algorithm;
    }
  };
  std::atomic<uint64_t> epoch_ = 0;
  std::mutex mutex_;
  std::unordered_map<PromiseKey, std::vector<planning::Promise>, KeyHash> promises_;
};

}  // namespace ucudnn::interposer
