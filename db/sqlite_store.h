// Measurements in SQLite files; FORMAT.md describes the files. Thread-safe; throws only if memory
// is out. The child of a fork may use the store. A file is opened when it is first used.
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
  // Writes go to the file with index `written`; the other files are only read. If several files
  // have a row with the same key, the row of the earliest file in `paths` is used.
  explicit SqliteStore(const std::vector<std::string>& paths, size_t written = 0);

  // Returns the path of the file that is written.
  std::string Place() override;

  // Returns rows that were measured with the cuDNN and driver versions of `platform`. A version
  // that is 0 (an offline question) matches every version; the rows are then those of the newest
  // matching versions for which this kernel has rows. Fails if no file can be read. Warns if only
  // some of several files cannot be read.
  Result<planning::KernelMeasurements> Read(const ConvolutionProblem& problem,
                                            const planning::Platform& platform) override;
  // Reads all problems from one snapshot of each file.
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

  // Returns all rows in the order in which they were written. If several files have a row with the
  // same key, the first is returned; a later row with another measurement is appended to
  // `differing`.
  Result<std::vector<StoredMeasurement>> List(std::vector<StoredMeasurement>* differing = nullptr);
  // Returns all promises, ordered by kernel.
  Result<std::vector<planning::EnginePromise>> ListPromises();

  // Adds imported rows in one transaction and returns the number of new rows. Leaves out a row
  // whose key the file already has. If a row has `complete` set, its micro-batch counts as complete
  // afterwards. List returns the `verified` of imported rows as it was added; Read ignores it.
  Result<size_t> Add(const std::vector<StoredMeasurement>& rows);
  // Adds promises in the same way as Add adds rows.
  Result<size_t> AddPromises(const std::vector<planning::EnginePromise>& promises);

  // Removes from the written file the rows that FindOldRows finds for `device`, and shrinks the
  // file. A `dry_run` changes nothing and only returns what would be removed.
  Result<Pruned> Prune(const std::string& device, bool dry_run);

 private:
  // Calls `use` with the connection of `file`; the connection is null if there is no file yet. If
  // the file turns out to be damaged, calls `use` again with a sibling.
  Status With(StoreFile& file, bool write, const std::function<Status(Connection*)>& use);
  // Calls `read` for every file; fails if no file could be read.
  Status ForEachFile(const std::function<Status(StoreFile&, Connection&)>& read);
  // Runs `write` in one transaction of the file that is written.
  Status InTransaction(const std::function<Status(RowWriter&)>& write);

  std::vector<std::unique_ptr<StoreFile>> files_;
  const size_t written_;
};

}  // namespace ucudnn::db
