// A measurement store in memory in which one operation fails.
#pragma once

#include <atomic>

#include "tests/support/memory_store.h"

namespace ucudnn::test {

// Counts the reads, writes and marks of all threads in `operations`, and makes operation number
// `failing` fail. The first operation is number 1. If `failing` is 0, none fails.
class FailingStore : public MemoryStore {
 public:
  Result<planning::KernelMeasurements> Read(const ConvolutionProblem& problem,
                                            const planning::Platform& platform) override {
    if (Fails()) return Status::Error("the disk is gone");
    return MemoryStore::Read(problem, platform);
  }
  Status Write(const ConvolutionProblem& problem, const planning::Platform& platform,
               const std::vector<planning::Measurement>& rows,
               const std::vector<int>& complete_sizes) override {
    if (Fails()) return Status::Error("the disk is full");
    return MemoryStore::Write(problem, platform, rows, complete_sizes);
  }
  Status MarkVerified(const ConvolutionProblem& problem, const planning::Platform& platform,
                      const std::vector<MicroConfiguration>& rows) override {
    if (Fails()) return Status::Error("the disk is full");
    return MemoryStore::MarkVerified(problem, platform, rows);
  }

  std::atomic<long> operations = 0;
  long failing = 0;

 private:
  bool Fails() { return ++operations == failing; }
};

}  // namespace ucudnn::test
