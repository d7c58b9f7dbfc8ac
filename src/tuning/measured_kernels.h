// All measurements this process knows, in front of the store: read once, measured once, shared by
// all handles. Thread-safe; one thread measures at a time, because two on one device disturb each
// other.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "planning/measurement_store.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

class MeasuredKernels {
 public:
  // `store` may be null: then measurements live as long as the process.
  explicit MeasuredKernels(planning::MeasurementStore* store) : store_(store) {}

  // Measurements of `problem` at the sizes `policy` considers, measuring those that nobody has when
  // `may_measure`. Without it, or when measuring fails, those that are known. Measurements at n
  // itself missing is an error: nothing can be promised without them. What failed once is not tried
  // again.
  Result<std::vector<MicroConfiguration>> Get(const Device& device,
                                              const ConvolutionProblem& problem,
                                              BatchSizePolicy policy, bool may_measure);

  // False when memory was too scarce to measure every engine of the undivided `problem`: then the
  // fastest may be among those left out.
  bool HasAllEngines(const Device& device, const ConvolutionProblem& problem);

  // Measurements made by this process (engines times micro-batches), not read from a store.
  long measured() const { return measured_; }

 private:
  struct Family {
    ConvolutionProblem problem;  // n = 0
    planning::Platform platform;
    bool operator==(const Family&) const = default;
  };
  struct FamilyHash {
    size_t operator()(const Family& family) const;
  };
  using Measurements = std::vector<planning::Measurement>;
  enum class SizeState { kMeasured, kScarce, kFailed };
  struct Known {
    Measurements rows;
    std::map<int, SizeState> sizes;  // those measured or tried
  };

  // The entry of `family`, read from the store when it is new. Keeps its address.
  Known& Meet(const Family& family);
  Result<Measurements> Read(const Family& family);
  // Measures `sizes` and adds what the store then holds of them to `known`.
  Status Measure(const Device& device, const ConvolutionProblem& problem,
                 const std::vector<int>& sizes, Known& known);
  std::vector<int> Missing(const Known& known, const std::vector<int>& sizes);

  planning::MeasurementStore* const store_;
  std::atomic<long> measured_ = 0;
  std::mutex measuring_mutex_;  // one thread measures; who only asks does not wait for it
  std::mutex mutex_;            // of known_; held for moments
  std::unordered_map<Family, Known, FamilyHash> known_;
};

}  // namespace ucudnn::tuning
