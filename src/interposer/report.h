// What ucudnn decided in this process: one record per kernel, and everything that did not go as
// planned. Written as JSON (`ucudnn-report`) by rename. Thread-safe; counting a call is one atomic
// addition, but for a kernel's first on a lane.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"
#include "interposer/layer_names.h"
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
  std::atomic<long> calls = 0;            // native CUDA graphs that were made count as one each
  std::atomic<long> undivided_calls = 0;  // of those, that ran undivided although the plan divides
  std::atomic<uint64_t> lanes = 0;        // bits of those that they were on, by Lanes
  bool replaced = false;                  // by a later decision, which took over the calls

  // `lane`: its bit; none where it is not known.
  void Count(uint64_t lane) {
    if ((lanes.load(std::memory_order_relaxed) & lane) != lane) {
      lanes.fetch_or(lane, std::memory_order_relaxed);
    }
    calls.fetch_add(1, std::memory_order_relaxed);
  }
};

// What the records add up to.
struct Totals {
  long kernels = 0, divided_kernels = 0;
  long calls = 0, divided_calls = 0;
  long fallbacks = 0;
};

// One workspace budget for all kernels of a device.
struct BudgetRecord {
  size_t total_bytes = 0;            // the user's
  size_t planned_bytes = 0;          // what was divided: less where the device has not as much
  const char* division = "";         // static text
  bool divided = false;              // false: the network is not known yet
  size_t kernels = 0;                // among which it was divided
  size_t total_workspace_bytes = 0;  // that the library holds on the device
  size_t capture_bytes = 0;          // of those: for graphs that are captured
  const char* solver = "";           // that chose their shares, static text; empty: nobody did
  std::optional<bool> optimal;       // proven by it, or not; none: a plan file says their shares
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

  // As LayerNames::Add.
  bool NameLayer(const ConvolutionProblem& problem, const std::string& name);
  // What was named before there was a report.
  void NameLayers(LayerNames names);

  // The record of the last decision about the legacy kernel of `problem`; none when there is none.
  std::optional<KernelRecord> Find(const ConvolutionProblem& problem);
  Totals Count();

  void SetPlatform(const planning::Platform& platform);
  // `device`: names it.
  void SetBudget(const void* device, const BudgetRecord& budget);

  // Everything as JSON text. `measured` counts measurements made by this process.
  std::string Json(const char* mode, long measured);
  // Writes Json to `path` (%p is the process id) by rename.
  Status Write(const std::string& path, const char* mode, long measured);

  bool empty();

 private:
  std::mutex mutex_;
  planning::Platform platform_;
  std::vector<std::pair<const void*, BudgetRecord>> budgets_;  // by device, as they were met
  std::deque<CountedKernel> kernels_;                          // keep their address
  std::unordered_multimap<size_t, CountedKernel*> by_hash_;    // of problem and limit
  size_t unwritten_ = 0;  // new records since `fresh` was last true
  std::map<std::pair<std::string, std::string>, long> fallbacks_;
  LayerNames layers_;
};

}  // namespace ucudnn::interposer
