// What ucudnn decided in this process: one record for each kernel and decision, and everything that
// did not go as planned. Written as JSON (`ucudnn-report`), by rename. Thread-safe. Counting a call
// takes one atomic addition, and one more at a kernel's first call on a lane.
#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/mutex.h"
#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"
#include "interposer/report/layer_names.h"
#include "interposer/report/spatial_record.h"
#include "planning/decision/facts.h"
#include "planning/measurement_store.h"
#include "planning/promise.h"

namespace ucudnn::interposer {

using planning::kUnknownTime;  // null in the JSON

struct KernelRecord {
  ConvolutionProblem problem;
  EngineId asked;               // that the program named
  size_t limit_bytes = 0;       // that the kernel was planned under
  size_t workspace_bytes = 0;   // of the caller's, that it uses
  size_t owned_bytes = 0;       // of ucudnn's own, that it uses
  Configuration configuration;  // what runs; a single piece when undivided
  planning::Baselines baselines;
  std::string reason;
  const char* api = "legacy";  // or "graph"; static text

  bool operator==(const KernelRecord&) const = default;
};

// A record, and the calls that it was in force for.
struct CountedKernel {
  KernelRecord record;
  std::atomic<long> calls = 0;            // a native CUDA graph counts as one when it is made
  std::atomic<long> undivided_calls = 0;  // those of `calls` that ran undivided despite pieces
  std::atomic<uint64_t> lanes = 0;        // bits of Lanes::BitOf that calls were on
  bool replaced = false;                  // a later decision replaced it and took over its calls

  // `lane` is its bit; 0 where it is not known.
  void Count(uint64_t lane) {
    assert((lane & (lane - 1)) == 0);
    if ((lanes.load(std::memory_order_relaxed) & lane) != lane) {
      lanes.fetch_or(lane, std::memory_order_relaxed);
    }
    calls.fetch_add(1, std::memory_order_relaxed);
  }
};

// Sums over all records.
struct Totals {
  long kernels = 0, divided_kernels = 0;
  long calls = 0, divided_calls = 0;
  long fallbacks = 0;
};

// One workspace budget for all kernels of a device.
struct BudgetRecord {
  size_t total_bytes = 0;            // the user's
  size_t planned_bytes = 0;          // what was divided; less where the device has less
  const char* division = "";         // static text
  bool divided = false;              // false: the network is not known yet
  size_t kernels = 0;                // that have a share
  size_t total_workspace_bytes = 0;  // that ucudnn holds on the device
  size_t capture_bytes = 0;          // of those, for graphs that are captured
  const char* solver = "";           // static text; empty: nothing was solved
  std::optional<bool>
      optimal;  // proven by the solver, or not; none: a workspace plan says the shares
};

class Report {
 public:
  // The record on which calls of this decision are counted; the report owns it and keeps it at its
  // address. Calls counted on `earlier` (null: none), the decision that this one replaces, move to
  // it. `fresh` becomes true where the report file should be written: the record is new and, when
  // there are very many, enough of them are.
  CountedKernel* Record(KernelRecord record, CountedKernel* earlier, bool& fresh);

  // Something ran otherwise than planned; both texts are for people.
  void AddFallback(const std::string& kernel, const std::string& cause);

  // As LayerNames::Add.
  bool NameLayer(const ConvolutionProblem& problem, const std::string& name);
  // Takes the names that were given before there was a report.
  void NameLayers(LayerNames names);

  // The record of the latest decision about the legacy kernel of `problem`; none when there is
  // none.
  std::optional<KernelRecord> Find(const ConvolutionProblem& problem);
  Totals Count();

  void SetPlatform(const planning::Platform& platform);
  // Replaces the record of the device that the address `device` names.
  void SetBudget(const void* device, const BudgetRecord& budget);

  void SetSpatial(SpatialRecord spatial);

  // The whole report as JSON text. `measured` is the number of measurements that this process made.
  std::string Json(const char* mode, long measured);
  // Writes Json to `path`, in which %p stands for the process id, by rename.
  Status Write(const std::string& path, const char* mode, long measured);

  bool empty();

 private:
  Mutex mutex_;
  planning::Platform platform_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<std::pair<const void*, BudgetRecord>> budgets_
      UCUDNN_GUARDED_BY(mutex_);  // by device, as they were met
  std::optional<SpatialRecord> spatial_ UCUDNN_GUARDED_BY(mutex_);
  std::deque<CountedKernel> kernels_ UCUDNN_GUARDED_BY(mutex_);  // keep their address
  std::unordered_multimap<size_t, CountedKernel*> by_hash_
      UCUDNN_GUARDED_BY(mutex_);                    // of problem and limit
  size_t unwritten_ UCUDNN_GUARDED_BY(mutex_) = 0;  // new records since `fresh` was last true
  std::map<std::pair<std::string, std::string>, long> fallbacks_ UCUDNN_GUARDED_BY(mutex_);
  LayerNames layers_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::interposer
