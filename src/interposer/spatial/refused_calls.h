// Counts the calls that were refused because they cannot be split. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "convolution/report_format.h"

namespace ucudnn::interposer {

class RefusedCalls {
 public:
  // Counts one call. `what` names the operation and the reason; it is logged the first time.
  void Add(const std::string& what) {
    WarnOnce("split " + what, what);
    MutexLock lock(mutex_);
    if (calls_by_reason_.size() < kMostNames || calls_by_reason_.contains(what))
      ++calls_by_reason_[what];
  }
  // Returns each value of `what` with its number of calls.
  std::vector<RefusedEntry> Counts() const {
    MutexLock lock(mutex_);
    std::vector<RefusedEntry> counts;
    for (const auto& [what, count] : calls_by_reason_) counts.push_back({what, count});
    return counts;
  }

 private:
  static constexpr size_t kMostNames = 256;  // how many different values of `what` are counted
  mutable Mutex mutex_;
  std::map<std::string, int64_t> calls_by_reason_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::interposer
