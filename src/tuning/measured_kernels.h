// All measurements this process knows, in front of the store: read once, measured once, shared by
// all handles. Thread-safe; one thread measures at a time, because two on one device disturb each
// other.
#pragma once

#include <atomic>
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
  // itself missing is an error: nothing can be promised without them.
  Result<std::vector<MicroConfiguration>> Get(const Device& device,
                                              const ConvolutionProblem& problem,
                                              BatchSizePolicy policy, bool may_measure);

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

  void Load(const Family& family, Measurements& known);
  // Measures `sizes` and adds what the store then holds of them to `known`.
  Status Measure(const Device& device, const ConvolutionProblem& problem,
                 const std::vector<int>& sizes, Measurements& known);

  planning::MeasurementStore* const store_;
  std::atomic<long> measured_ = 0;
  std::mutex
      mutex_;  // held while reading and measuring: callers of one process wait for each other
  std::unordered_map<Family, Measurements, FamilyHash> known_;
};

}  // namespace ucudnn::tuning
