// A measurement store in memory that counts what is asked of it and fails on demand.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

#include "planning/measurement_store.h"

namespace ucudnn::test {

class MemoryStore : public planning::MeasurementStore {
 public:
  Result<std::vector<planning::Measurement>> Read(const ConvolutionProblem& problem,
                                                  const planning::Platform& platform) override {
    std::lock_guard lock(mutex_);
    ++reads;
    if (read_fails) return Status::Error("the disk is gone");
    std::vector<planning::Measurement> found;
    for (const Row& row : rows_) {
      if (row.family == KernelFamily(problem) && row.platform == platform) {
        found.push_back(row.measurement);
      }
    }
    return found;
  }

  Status Write(const ConvolutionProblem& problem, const planning::Platform& platform,
               const std::vector<planning::Measurement>& measurements) override {
    std::lock_guard lock(mutex_);
    ++writes;
    if (write_fails) return Status::Error("the disk is full");
    for (const planning::Measurement& measurement : measurements) {
      const Row row{KernelFamily(problem), platform, measurement};
      const bool known = std::any_of(rows_.begin(), rows_.end(), [&](const Row& old) {
        return old.family == row.family && old.platform == platform &&
               old.measurement.micro.engine == measurement.micro.engine &&
               old.measurement.micro.micro_batch == measurement.micro.micro_batch;
      });
      if (!known) rows_.push_back(row);
    }
    return Status::Ok();
  }

  int reads = 0;
  int writes = 0;
  bool read_fails = false;
  bool write_fails = false;

 private:
  struct Row {
    ConvolutionProblem family;
    planning::Platform platform;
    planning::Measurement measurement;
  };
  std::mutex mutex_;
  std::vector<Row> rows_;
};

}  // namespace ucudnn::test
