// Measurements in SQLite files; FORMAT.md describes them. Thread-safe; never throws; safe to use in
// the child of a fork. Files are opened at the first use.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/pruning.h"
#include "db/row_writer.h"
#include "db/store_file.h"
#include "db/stored_measurement.h"
#include "planning/measurement_store.h"

namespace ucudnn::db {

class SqliteStore : public planning::MeasurementStore {
 public:
  // The file number `written` is read and written, the others are only read. If several have a row
  // with the same key, the earlier file's is used.
  explicit SqliteStore(const std::vector<std::string>& paths, size_t written = 0);

  // Returns the file that is written.
  std::string Place() override;

  // A platform with both numbers known gets rows with exactly these numbers. If its cudnn or driver
  // is 0 (asked offline), any number matches, and all rows come from the newest platform that has
  // some of this kernel. Fails if no file can be read; a single unreadable file causes a warning.
  Result<planning::KernelMeasurements> Read(const ConvolutionProblem& problem,
                                            const planning::Platform& platform) override;
  // All problems are read from one snapshot of each file.
  Result<std::vector<planning::KernelMeasurements>> ReadAll(
      const std::vector<ConvolutionProblem>& problems, const planning::Platform& platform) override;

  Status Write(const ConvolutionProblem& problem, const planning::Platform& platform,
               const std::vector<planning::Measurement>& measurements,
               const std::vector<int>& complete_sizes) override;

  Status MarkVerified(const ConvolutionProblem& problem, const planning::Platform& platform,
                      const std::vector<MicroConfiguration>& rows) override;

  Result<std::optional<std::string>> FindNote(const ConvolutionProblem& problem,
                                              const planning::Platform& platform,
                                              const std::string& about) override;
  Status KeepNote(const ConvolutionProblem& problem, const planning::Platform& platform,
                  const std::string& about, const std::string& note) override;

  Result<std::optional<planning::EnginePromise>> FindPromise(
      const planning::EnginePromise& asked) override;
  Result<planning::EnginePromise> KeepPromise(const planning::EnginePromise& promise) override;

  // Returns all rows, in the order in which they were written. Rows of later files with the key of
  // an earlier one are left out; those that differ from it go to `differing`.
  Result<std::vector<StoredMeasurement>> List(std::vector<StoredMeasurement>* differing = nullptr);
  // Returns all promises, kernel by kernel.
  Result<std::vector<planning::EnginePromise>> ListPromises();

  // Adds rows from outside in one transaction, first writer wins; returns the number of new rows.
  // The sizes of rows that are `complete` become complete. Their `verified` is kept for List, but
  // Read does not trust it.
  Result<size_t> Add(const std::vector<StoredMeasurement>& rows);
  // Adds promises in the same way.
  Result<size_t> AddPromises(const std::vector<planning::EnginePromise>& promises);

  // Removes from the written file the rows that FindOldRows finds for `device`, and gives the space
  // back; on a `dry_run` only says what would be removed.
  Result<Pruned> Prune(const std::string& device, bool dry_run);

 private:
  // Runs `use` on `file`'s connection (null if there is no file yet), and once more on a sibling if
  // the file turns out to be damaged.
  Status With(StoreFile& file, bool write, const std::function<Status(Connection*)>& use);
  // Runs `read` on every file; fails if all of them fail.
  Status ForEachFile(const std::function<Status(StoreFile&, Connection&)>& read);
  // Runs `write` in one transaction on the file that is written.
  Status InTransaction(const std::function<Status(RowWriter&)>& write);

  std::vector<std::unique_ptr<StoreFile>> files_;
  const size_t written_;
};

}  // namespace ucudnn::db
