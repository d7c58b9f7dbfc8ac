// Measurements in SQLite files; FORMAT.md describes them. Thread-safe; never throws; safe to use in
// the child of a fork. Files are opened at the first use.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "db/store_file.h"
#include "db/stored_measurement.h"
#include "planning/measurement_store.h"

namespace ucudnn::db {

class SqliteStore : public planning::MeasurementStore {
 public:
  // The first file is read and written, the others are only read. Where several hold a row with the
  // same key, the earlier file's is used.
  explicit SqliteStore(const std::vector<std::string>& paths);

  // A platform whose numbers are both known gets rows with exactly these numbers. For one whose
  // cudnn or driver is 0 (asking offline) any number matches, and all rows come from the newest
  // platform that has some of this kernel. Fails when no file can be read; a single file that
  // cannot costs a warning.
  Result<std::vector<planning::Measurement>> Read(const ConvolutionProblem& problem,
                                                  const planning::Platform& platform) override;

  Status Write(const ConvolutionProblem& problem, const planning::Platform& platform,
               const std::vector<planning::Measurement>& measurements) override;

  // All rows, in the order they were written.
  Result<std::vector<StoredMeasurement>> List();

  // Adds rows in one transaction, first writer wins; gives the number that were new.
  Result<size_t> Add(const std::vector<StoredMeasurement>& rows);

 private:
  // Runs `use` on `file`'s connection (null where there is no file yet); once more on a sibling
  // when the file turns out to be damaged.
  Status With(StoreFile& file, bool write, const std::function<Status(Connection*)>& use);
  // Runs `read` on every file; fails when all of them fail.
  Status ForEachFile(const std::function<Status(Connection&)>& read);

  std::vector<std::unique_ptr<StoreFile>> files_;
};

}  // namespace ucudnn::db
