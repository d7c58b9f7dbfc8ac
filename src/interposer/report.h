// What ucudnn decided in this process: one record per kernel, and everything that did not go as
// planned. Written as JSON (`ucudnn-report`) by rename. Thread-safe; counting a call is one atomic
// addition.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"
#include "planning/measurement_store.h"

namespace ucudnn::interposer {

// The time of what nobody measured; null in the JSON.
constexpr double kUnknownTime = -1;

struct KernelRecord {
  ConvolutionProblem problem;
  size_t limit_bytes = 0;        // the ceiling this kernel was planned under
  size_t workspace_bytes = 0;    // what it uses of the caller's workspace
  size_t library_bytes = 0;      // what it uses of the library's own
  Configuration plan;            // what runs; one piece when undivided
  MicroConfiguration undivided;  // the fastest undivided engine under the ceiling; empty: unknown
  std::string reason;
  const char* api = "legacy";  // or "graph": static text

  bool operator==(const KernelRecord&) const = default;
};

// A record that calls are counted on.
struct CountedKernel {
  KernelRecord record;
  std::atomic<long> calls = 0;
  bool replaced = false;  // by a later decision, which took over the calls
};

class Report {
 public:
  // Where calls of an equal decision are counted; `fresh` tells whether the report should be
  // written again: the record is new, or enough of them are where there are so many that writing
  // all for each would take long. Calls counted under `earlier`, the decision that this one
  // replaces, become its own.
  CountedKernel* Record(KernelRecord record, CountedKernel* earlier, bool& fresh);

  // Something ran otherwise than planned: `kernel` in words, `cause` in words.
  void AddFallback(const std::string& kernel, const std::string& cause);

  void SetPlatform(const planning::Platform& platform);

  // Everything as JSON text. `measured` counts measurements made by this process.
  std::string Json(const char* mode, long measured);
  // Writes Json to `path` (%p is the process id) by rename.
  Status Write(const std::string& path, const char* mode, long measured);

  bool empty();

 private:
  std::mutex mutex_;
  planning::Platform platform_;
  std::deque<CountedKernel> kernels_;                        // keep their address
  std::unordered_multimap<size_t, CountedKernel*> by_hash_;  // of problem and limit
  size_t unwritten_ = 0;  // new records since `fresh` was last true
  std::map<std::pair<std::string, std::string>, long> fallbacks_;
};

}  // namespace ucudnn::interposer
