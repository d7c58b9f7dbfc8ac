// Reads rows of one store file of any schema version that this ucudnn knows. Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "db/connection.h"
#include "db/stored_measurement.h"

namespace ucudnn::db {

// The rows of files for one kernel family and device, by cudnn and driver version.
struct KernelFacts {
  using Choice = std::pair<int, EngineId>;  // micro-batch and engine
  std::vector<planning::Measurement> rows;  // their own `verified` does not count: see below
  std::set<int> complete_sizes;
  std::set<Choice> verified;
};
using FactsByVersion = std::map<std::pair<int, int>, KernelFacts>;

// Adds the rows of a file of schema `version` for `family` on `platform` to `facts`; a version
// number of 0 in `platform` matches any. REQUIRES: a transaction is open.
Status ReadFacts(Connection& connection, int64_t version, const ConvolutionProblem& family,
                 const planning::Platform& platform, FactsByVersion& facts);

// Returns the note under this key in a file of the current version; none if it has no such note.
Result<std::optional<std::string>> ReadNote(Connection& connection,
                                            const ConvolutionProblem& problem,
                                            const planning::Platform& platform,
                                            const std::string& about);

// Visits all rows of a file in the order in which they were written: its id, the row or why it
// makes no sense, and whether it was imported.
using RowVisitor =
    std::function<void(int64_t id, const Result<StoredMeasurement>& row, bool imported)>;
Status VisitRows(Connection& connection, int64_t version, const RowVisitor& visit);

// Returns the rows that make sense; the others cause a warning.
Result<std::vector<StoredMeasurement>> ListRows(Connection& connection, int64_t version);

}  // namespace ucudnn::db
