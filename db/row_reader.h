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

// The rows of one kernel family on one device, measured with one cuDNN and driver version. They may
// come from several files.
struct KernelFacts {
  using Choice = std::pair<int, EngineId>;  // micro-batch and engine
  std::vector<planning::Measurement> rows;  // use `verified` below, not Measurement::verified
  std::set<int> complete_sizes;
  std::set<Choice> verified;
};
using FactsByVersion = std::map<std::pair<int, int>, KernelFacts>;

// Adds to `facts` the rows, complete sizes and verifications that a file of schema `version` holds
// for `family` on `platform`. A version in `platform` that is 0 matches every version. REQUIRES: a
// transaction is open.
Status ReadFacts(Connection& connection, int64_t version, const ConvolutionProblem& family,
                 const planning::Platform& platform, FactsByVersion& facts);

// Returns the note for this problem, platform and `about`; none if the file has no such note. The
// file must have the current schema version.
Result<std::optional<std::string>> ReadNote(Connection& connection,
                                            const ConvolutionProblem& problem,
                                            const planning::Platform& platform,
                                            const std::string& about);

// Calls `visit` for each row of a file in the order in which the rows were written. Its arguments
// are the row's id, the row (or an error if its values are impossible), and whether the row was
// imported.
using RowVisitor =
    std::function<void(int64_t id, const Result<StoredMeasurement>& row, bool imported)>;
Status VisitRows(Connection& connection, int64_t version, const RowVisitor& visit);

// Returns all rows; a row with impossible values is skipped with a warning.
Result<std::vector<StoredMeasurement>> ListRows(Connection& connection, int64_t version);

}  // namespace ucudnn::db
