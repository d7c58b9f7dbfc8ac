// The decisions of this process, with a record for each kernel and decision, and everything that
// did not go as planned. The report is written as JSON (`ucudnn-report`) into a new file, which is
// then renamed. Thread-safe. Counting a call takes one atomic addition, and a second atomic
// operation at a kernel's first call on a lane.
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
#include "convolution/report_format.h"
#include "interposer/report/layer_names.h"
#include "planning/decision/facts.h"
#include "planning/measurement_store.h"
#include "planning/promise.h"

namespace ucudnn::interposer {

using planning::kUnknownTime;  // null in the JSON

// A record, with counts of the calls that were made while its decision was in force.
struct CountedKernel {
  KernelRecord record;
  std::atomic<long> calls = 0;  // making a native CUDA graph counts as one call
  // The part of `calls` that ran undivided although the plan has pieces.
  std::atomic<long> undivided_calls = 0;
  std::atomic<uint64_t> lanes = 0;  // bits of the lanes of its calls (Lanes::BitOf)
  bool replaced = false;  // a later decision has replaced this one and has taken over its calls

  // `lane` is the bit of the call's lane; 0 if it is unknown.
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

class Report {
 public:
  // Returns the record that equals `record`; adds it if there is none. The calls of a decision are
  // counted on this record. The report owns the record, and its address never changes. `earlier` is
  // the record of the decision that is replaced (null: none); its calls are moved to the returned
  // record. Sets `fresh` to whether a record was added and the report file should be written now.
  // Beyond kWholeReports records, the file is written only when enough records are new.
  CountedKernel* Record(KernelRecord record, CountedKernel* earlier, bool& fresh);

  // Records that something did not go as planned. Both texts are for people.
  void AddFallback(const std::string& kernel, const std::string& cause);

  // Like LayerNames::Add.
  bool NameLayer(const ConvolutionProblem& problem, const std::string& name);
  // Takes over names that were given before the report existed.
  void NameLayers(LayerNames names);

  // Returns the record of the latest decision about the legacy kernel of `problem`; none: there is
  // no such record.
  std::optional<KernelRecord> Find(const ConvolutionProblem& problem);
  Totals Count();

  void SetPlatform(const planning::Platform& platform);
  // Replaces the figures of a device's budget. The address `device` identifies the device.
  void SetBudget(const void* device, const ReportedBudget& budget);

  void SetSplit(SplitJob job);

  // Returns the whole report as JSON. `measured` is the number of measurements that this process
  // has made.
  std::string Json(const char* mode, long measured);
  // Writes Json to `path`, in which %p is replaced by the process id. Writes a new file, and then
  // renames it. Fails if `path` is not a regular file.
  Status Write(const std::string& path, const char* mode, long measured);

  bool empty();

 private:
  Mutex mutex_;
  planning::Platform platform_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<std::pair<const void*, ReportedBudget>> budgets_
      UCUDNN_GUARDED_BY(mutex_);  // by device, in the order of the first SetBudget
  std::optional<SplitJob> split_ UCUDNN_GUARDED_BY(mutex_);
  std::deque<CountedKernel> kernels_ UCUDNN_GUARDED_BY(mutex_);  // their addresses never change
  std::unordered_multimap<size_t, CountedKernel*> by_hash_
      UCUDNN_GUARDED_BY(mutex_);                    // by a hash of problem and limit
  size_t unwritten_ UCUDNN_GUARDED_BY(mutex_) = 0;  // new records since `fresh` was last true
  std::map<std::pair<std::string, std::string>, long> fallbacks_ UCUDNN_GUARDED_BY(mutex_);
  LayerNames layers_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::interposer
