// Writes rows to one store file of the current schema version. The caller opens the transaction and
// commits it. Not thread-safe. The connection must outlive this object.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"
#include "db/connection.h"
#include "db/stored_measurement.h"

namespace ucudnn::db {

// Returns an error that says why a row's values are impossible; Ok if they are possible.
Status CheckRow(const StoredMeasurement& row);

class RowWriter {
 public:
  enum class Origin { kMeasured, kImported };

  explicit RowWriter(Connection& connection) : connection_(connection) {}

  // Returns true if the row is new. With Origin::kMeasured, also calls MarkVerified if `verified`
  // is set. SqliteStore::Read trusts only what MarkVerified has recorded, so `verified` of an
  // imported row has no effect there.
  Result<bool> Insert(const StoredMeasurement& row, Origin origin);
  // Records that all engines of this kernel were measured at this micro-batch.
  Status MarkComplete(const ConvolutionProblem& problem, const planning::Platform& platform,
                      int micro_batch);
  // Records that this engine's output at this micro-batch equalled the undivided engine's output on
  // this platform.
  Status MarkVerified(const ConvolutionProblem& problem, const planning::Platform& platform,
                      const EngineId& engine, int micro_batch);
  // Stores `note` for this problem, platform and `about`. It replaces an earlier note.
  Status Note(const ConvolutionProblem& problem, const planning::Platform& platform,
              const std::string& about, const std::string& note);
  // Adds `promise`. Returns false if the file has a promise with the same key, which stays in the
  // file.
  Result<bool> Insert(const planning::EnginePromise& promise);

 private:
  // Returns the id of the family of `problem`; adds the family if the file lacks it.
  Result<int64_t> Kernel(const ConvolutionProblem& problem);

  Connection& connection_;
  ConvolutionProblem family_;  // family of the last row
  int64_t id_ = 0;             // id of family_; 0: no row was written yet
};

}  // namespace ucudnn::db
