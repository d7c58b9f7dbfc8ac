// Writes rows to one store file. The caller holds a transaction around all of them. Not
// thread-safe; must not outlive its connection.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"
#include "db/connection.h"
#include "db/stored_measurement.h"

namespace ucudnn::db {

// Says why a row makes no sense to any reader; Ok if it does.
Status CheckRow(const StoredMeasurement& row);

class RowWriter {
 public:
  enum class Origin { kMeasured, kImported };

  explicit RowWriter(Connection& connection) : connection_(connection) {}

  // Returns true if the row is new. Runs trust its `verified` only if it was measured here.
  Result<bool> Insert(const StoredMeasurement& row, Origin origin);
  // Notes that all engines of this kernel were measured at this micro-batch.
  Status MarkComplete(const ConvolutionProblem& problem, const planning::Platform& platform,
                      int micro_batch);
  // Notes that the output of this engine at this micro-batch was compared on this platform.
  Status MarkVerified(const ConvolutionProblem& problem, const planning::Platform& platform,
                      const EngineId& engine, int micro_batch);
  // Replaces the note under this key.
  Status Note(const ConvolutionProblem& problem, const planning::Platform& platform,
              const std::string& about, const std::string& note);
  // Returns true if there was no promise under this key.
  Result<bool> Insert(const planning::EnginePromise& promise);

 private:
  // Returns the id of the family of `problem`, which is added if it is new.
  Result<int64_t> Kernel(const ConvolutionProblem& problem);

  Connection& connection_;
  ConvolutionProblem family_;  // of the last row
  int64_t id_ = 0;             // its id; 0: none yet
};

}  // namespace ucudnn::db
