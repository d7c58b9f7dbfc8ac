#include "db/sqlite_store.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <tuple>

#include "base/file_size_limit.h"
#include "base/log.h"
#include "base/mutex.h"
#include "convolution/partial_sums.h"
#include "db/known_rows.h"
#include "db/promise_rows.h"
#include "db/row_reader.h"
#include "db/schema.h"

namespace ucudnn::db {

using planning::EnginePromise;
using planning::KernelMeasurements;
using planning::Measurement;
using planning::Platform;

namespace {

uint64_t FileSize(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

// Returns the measurements of the newest cuDNN and driver versions that have measurements. If
// several files have a row with the same key, the first file's row is returned.
KernelMeasurements OfNewestVersion(FactsByVersion& facts) {
  KernelMeasurements known;
  for (auto newest = facts.rbegin(); newest != facts.rend(); ++newest) {
    KernelFacts& found = newest->second;
    if (found.rows.empty()) continue;
    const auto key = [](const Measurement& row) {
      return std::tie(row.micro.micro_batch, row.micro.engine);
    };
    // Among rows with equal keys, a stable sort puts the row of the earliest file first, and
    // `unique` keeps the first row.
    std::stable_sort(found.rows.begin(), found.rows.end(),
                     [&](const auto& a, const auto& b) { return key(a) < key(b); });
    found.rows.erase(std::unique(found.rows.begin(), found.rows.end(),
                                 [&](const auto& a, const auto& b) { return key(a) == key(b); }),
                     found.rows.end());
    known.rows = std::move(found.rows);
    for (Measurement& row : known.rows) {
      row.verified = found.verified.contains({row.micro.micro_batch, row.micro.engine});
    }
    known.complete_sizes.assign(found.complete_sizes.begin(), found.complete_sizes.end());
    break;
  }
  return known;
}

}  // namespace

SqliteStore::SqliteStore(const std::vector<std::string>& paths, size_t written)
    : written_(written) {
  for (const std::string& path : paths) {
    files_.push_back(std::make_unique<StoreFile>(path, files_.size() == written_));
  }
}

std::string SqliteStore::Place() {
  if (files_.empty()) return {};
  MutexLock lock(StoreMutex());
  return files_[written_]->place();
}

Status SqliteStore::With(StoreFile& file, bool write,
                         const std::function<Status(Connection*)>& use) {
  try {
    MutexLock lock(StoreMutex());
    const FileSizeLimitScope within_the_limit;
    try {
      for (;;) {
        const Result<Connection*> connection = write ? file.ForWriting() : file.ForReading();
        const Status status = connection.ok() ? use(*connection) : connection.status();
        if (status.ok() || !file.SetAsideIfDamaged()) return status;
      }
    } catch (...) {
      // Memory ran out. An open snapshot would keep the file locked for other processes, so the
      // file is closed.
      file.Close();
      throw;
    }
  } catch (const std::exception& error) {
    return Status::Error(file.path() + ": " + error.what());
  }
}

Status SqliteStore::ForEachFile(const std::function<Status(StoreFile&, Connection&)>& read) {
  Status first_failure;
  bool any = files_.empty();
  for (const auto& file : files_) {
    const Status status = With(*file, false, [&](Connection* connection) {
      if (connection == nullptr) return Status::Ok();
      // The rows and the complete sizes must come from one snapshot. Otherwise a size could be read
      // as complete without all its rows. The transaction also locks the file only once.
      UCUDNN_ASSIGN_OR_RETURN(Statement begin, connection->Prepare("BEGIN"));
      UCUDNN_ASSIGN_OR_RETURN(Statement end, connection->Prepare("COMMIT"));
      UCUDNN_RETURN_IF_ERROR(begin.Run());
      const Status status = read(*file, *connection);
      const Status ended = end.Run();
      return status.ok() ? ended : status;
    });
    any = any || status.ok();
    if (status.ok()) continue;
    if (first_failure.ok()) first_failure = status;
    if (files_.size() > 1) {
      WarnOnce("store " + file->path(), "a measurement store is not read: " + status.message());
    }
  }
  return any ? Status::Ok() : first_failure;
}

Result<KernelMeasurements> SqliteStore::Read(const ConvolutionProblem& problem,
                                             const Platform& platform) {
  UCUDNN_ASSIGN_OR_RETURN(auto all, ReadAll({problem}, platform));
  return std::move(all.front());
}

Result<std::vector<KernelMeasurements>> SqliteStore::ReadAll(
    const std::vector<ConvolutionProblem>& problems, const Platform& platform) {
  std::vector<FactsByVersion> facts(problems.size());
  UCUDNN_RETURN_IF_ERROR(ForEachFile([&](StoreFile& file, Connection& connection) {
    std::vector<FactsByVersion> found(problems.size());
    for (size_t i = 0; i < problems.size(); ++i) {
      UCUDNN_RETURN_IF_ERROR(
          ReadFacts(connection, file.version(), KernelFamily(problems[i]), platform, found[i]));
    }
    for (size_t i = 0; i < problems.size(); ++i) {
      for (auto& [version, from] : found[i]) {
        KernelFacts& into = facts[i][version];
        std::move(from.rows.begin(), from.rows.end(), std::back_inserter(into.rows));
        into.complete_sizes.merge(from.complete_sizes);
        into.verified.merge(from.verified);
      }
    }
    return Status::Ok();
  }));
  std::vector<KernelMeasurements> all;
  for (FactsByVersion& found : facts) all.push_back(OfNewestVersion(found));
  return all;
}

Status SqliteStore::InTransaction(const std::function<Status(RowWriter&)>& write) {
  if (files_.empty()) return Status::Ok();
  return With(*files_[written_], true, [&](Connection* connection) {
    Transaction transaction(*connection);
    UCUDNN_RETURN_IF_ERROR(transaction.Begin());
    RowWriter writer(*connection);
    UCUDNN_RETURN_IF_ERROR(write(writer));
    return transaction.Commit();
  });
}

Status SqliteStore::Write(const ConvolutionProblem& problem, const Platform& platform,
                          const std::vector<Measurement>& measurements,
                          const std::vector<int>& complete_sizes) {
  for (const Measurement& row : measurements) {
    UCUDNN_RETURN_IF_ERROR(CheckRow({"", problem, platform, row}));
  }
  if (measurements.empty() && complete_sizes.empty()) return Status::Ok();
  return InTransaction([&](RowWriter& writer) {
    for (const Measurement& row : measurements) {
      UCUDNN_RETURN_IF_ERROR(
          writer.Insert({"", problem, platform, row}, RowWriter::Origin::kMeasured).status());
    }
    for (const int size : complete_sizes) {
      UCUDNN_RETURN_IF_ERROR(writer.MarkComplete(problem, platform, size));
    }
    return Status::Ok();
  });
}

Status SqliteStore::MarkVerified(const ConvolutionProblem& problem, const Platform& platform,
                                 const std::vector<MicroConfiguration>& rows) {
  if (rows.empty()) return Status::Ok();
  return InTransaction([&](RowWriter& writer) {
    for (const MicroConfiguration& row : rows) {
      UCUDNN_RETURN_IF_ERROR(writer.MarkVerified(problem, platform, row.engine, row.micro_batch));
    }
    return Status::Ok();
  });
}

Result<size_t> SqliteStore::Add(const std::vector<StoredMeasurement>& rows) {
  for (const StoredMeasurement& row : rows) UCUDNN_RETURN_IF_ERROR(CheckRow(row));
  if (rows.empty()) return size_t{0};
  size_t added = 0;
  UCUDNN_RETURN_IF_ERROR(InTransaction([&](RowWriter& writer) {
    added = 0;
    for (const StoredMeasurement& row : rows) {
      UCUDNN_ASSIGN_OR_RETURN(const bool is_new, writer.Insert(row, RowWriter::Origin::kImported));
      added += is_new ? 1 : 0;
      // A row of an auxiliary engine (a sum or a copy) does not show that all convolution engines
      // were measured at its micro-batch.
      if (!row.complete || row.measurement.micro.engine.is_auxiliary()) continue;
      UCUDNN_RETURN_IF_ERROR(
          writer.MarkComplete(row.problem, row.platform, row.measurement.micro.micro_batch));
    }
    return Status::Ok();
  }));
  return added;
}

Result<std::optional<std::string>> SqliteStore::FindNote(const ConvolutionProblem& problem,
                                                         const Platform& platform,
                                                         const std::string& about) {
  std::optional<std::string> found;
  UCUDNN_RETURN_IF_ERROR(ForEachFile([&](StoreFile& file, Connection& connection) {
    if (found || file.version() < kSchemaVersion) return Status::Ok();
    UCUDNN_ASSIGN_OR_RETURN(found, ReadNote(connection, problem, platform, about));
    return Status::Ok();
  }));
  return found;
}

Status SqliteStore::KeepNote(const ConvolutionProblem& problem, const Platform& platform,
                             const std::string& about, const std::string& note) {
  return InTransaction(
      [&](RowWriter& writer) { return writer.Note(problem, platform, about, note); });
}

Result<std::optional<EnginePromise>> SqliteStore::FindPromise(const EnginePromise& asked) {
  std::optional<EnginePromise> found;
  UCUDNN_RETURN_IF_ERROR(ForEachFile([&](StoreFile& file, Connection& connection) {
    if (found) return Status::Ok();
    UCUDNN_ASSIGN_OR_RETURN(found, ReadPromise(connection, file.version(), asked));
    return Status::Ok();
  }));
  return found;
}

Result<EnginePromise> SqliteStore::KeepPromise(const EnginePromise& promise) {
  UCUDNN_RETURN_IF_ERROR(AddPromises({promise}).status());
  UCUDNN_ASSIGN_OR_RETURN(const std::optional<EnginePromise> kept, FindPromise(promise));
  return kept.value_or(promise);
}

Result<size_t> SqliteStore::AddPromises(const std::vector<EnginePromise>& promises) {
  for (const EnginePromise& promise : promises) UCUDNN_RETURN_IF_ERROR(CheckPromise(promise));
  if (promises.empty()) return size_t{0};
  size_t added = 0;
  UCUDNN_RETURN_IF_ERROR(InTransaction([&](RowWriter& writer) {
    added = 0;
    for (const EnginePromise& promise : promises) {
      UCUDNN_ASSIGN_OR_RETURN(const bool is_new, writer.Insert(promise));
      added += is_new ? 1 : 0;
    }
    return Status::Ok();
  }));
  return added;
}

Result<Pruned> SqliteStore::Prune(const std::string& device, bool dry_run) {
  Pruned old;
  if (files_.empty()) return old;
  StoreFile& file = *files_[written_];
  UCUDNN_RETURN_IF_ERROR(With(file, !dry_run, [&](Connection* connection) {
    if (connection == nullptr) return Status::Ok();
    const uint64_t bytes_before = FileSize(connection->path());
    if (dry_run) {
      UCUDNN_ASSIGN_OR_RETURN(old, FindOldRows(*connection, device));
      old.file = connection->path();
      old.bytes_before = old.bytes_after = bytes_before;
      return Status::Ok();
    }
    {
      Transaction transaction(*connection);
      UCUDNN_RETURN_IF_ERROR(transaction.Begin());
      UCUDNN_ASSIGN_OR_RETURN(old, FindOldRows(*connection, device));
      UCUDNN_ASSIGN_OR_RETURN(old.kernels, RemoveRows(*connection, old));
      UCUDNN_RETURN_IF_ERROR(transaction.Commit());
    }
    UCUDNN_RETURN_IF_ERROR(connection->Execute("VACUUM"));
    old.file = connection->path();
    old.bytes_before = bytes_before;
    old.bytes_after = FileSize(old.file);
    return Status::Ok();
  }));
  return old;
}

Result<std::vector<StoredMeasurement>> SqliteStore::List(
    std::vector<StoredMeasurement>* differing) {
  std::vector<StoredMeasurement> rows;
  UCUDNN_RETURN_IF_ERROR(ForEachFile([&](StoreFile& file, Connection& connection) {
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<StoredMeasurement> found,
                            ListRows(connection, file.version()));
    rows.insert(rows.end(), found.begin(), found.end());
    return Status::Ok();
  }));
  if (files_.size() < 2) return rows;

  KnownRows known;
  std::vector<StoredMeasurement> unique;
  for (StoredMeasurement& row : rows) {
    const KnownRows::Kind kind = known.Add(row);
    if (kind == KnownRows::Kind::kNew) {
      unique.push_back(std::move(row));
    } else if (kind == KnownRows::Kind::kDiffering && differing != nullptr) {
      differing->push_back(std::move(row));
    }
  }
  return unique;
}

Result<std::vector<EnginePromise>> SqliteStore::ListPromises() {
  std::vector<EnginePromise> promises;
  UCUDNN_RETURN_IF_ERROR(ForEachFile([&](StoreFile& file, Connection& connection) {
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<EnginePromise> found,
                            db::ListPromises(connection, file.version()));
    const size_t earlier = promises.size();
    for (const EnginePromise& promise : found) {
      const bool known = std::any_of(
          promises.begin(), promises.begin() + static_cast<ptrdiff_t>(earlier),
          [&](const EnginePromise& other) {
            return other.problem == promise.problem && other.platform == promise.platform &&
                   other.engine == promise.engine && other.limit_bytes == promise.limit_bytes;
          });
      if (!known) promises.push_back(promise);
    }
    return Status::Ok();
  }));
  return promises;
}

}  // namespace ucudnn::db
