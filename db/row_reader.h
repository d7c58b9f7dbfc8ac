// Rows out of one store file of any schema version this ucudnn knows, through statements that are
// prepared once. Not thread-safe; must not outlive its connection.
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

// What files know of one kernel family and device, apart by cudnn and driver version.
struct KernelFacts {
  using Choice = std::pair<int, EngineId>;  // micro-batch and engine
  std::vector<planning::Measurement> rows;  // the stored `verified` is not theirs: see below
  std::set<int> complete_sizes;
  std::set<Choice> verified;
};
using FactsByVersion = std::map<std::pair<int, int>, KernelFacts>;

class RowReader {
 public:
  // `version` is the schema version of the file.
  static Result<RowReader> Prepare(Connection& connection, int64_t version);

  // Adds what the file knows of `family` on `platform` to `facts`; a version number of 0 in
  // `platform` matches any.
  Status Read(const ConvolutionProblem& family, const planning::Platform& platform,
              FactsByVersion& facts);

 private:
  RowReader(Statement begin, Statement end, Statement kernel, Statement rows)
      : begin_(std::move(begin)),
        end_(std::move(end)),
        kernel_(std::move(kernel)),
        rows_(std::move(rows)) {}

  Status ReadSnapshot(const ConvolutionProblem& family, const planning::Platform& platform,
                      FactsByVersion& facts);

  Statement begin_;
  Statement end_;
  Statement kernel_;
  Statement rows_;
  // Absent in a file of version 1, whose sizes are all complete and none of whose rows is trusted.
  std::optional<Statement> complete_;
  std::optional<Statement> verified_;
};

// The note under this key in a file of the current version; none where it has no such note.
Result<std::optional<std::string>> ReadNote(Connection& connection,
                                            const ConvolutionProblem& problem,
                                            const planning::Platform& platform,
                                            const std::string& about);

// Visits all rows of a file in the order they were written: its id, the row or why it makes no
// sense, and whether it was imported.
using RowVisitor =
    std::function<void(int64_t id, const Result<StoredMeasurement>& row, bool imported)>;
Status VisitRows(Connection& connection, int64_t version, const RowVisitor& visit);

// Those that make sense; the others cost a warning.
Result<std::vector<StoredMeasurement>> ListRows(Connection& connection, int64_t version);

}  // namespace ucudnn::db
