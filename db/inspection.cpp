#include "db/inspection.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <functional>

#include "base/mutex.h"
#include "convolution/partial_sums.h"
#include "convolution/tiles.h"
#include "db/connection.h"
#include "db/promise_rows.h"
#include "db/row_reader.h"
#include "db/schema.h"
#include "db/store_file.h"

namespace ucudnn::db {
namespace {

// Opens `path` for reading under StoreMutex(), identifies it and calls `use`.
Status WithFile(const std::string& path,
                const std::function<Status(Connection&, const Identity&)>& use) {
  try {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) {
      return Status::Error(path + ": cannot be opened: " + std::strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
      return Status::Error(path + ": cannot be opened: not a regular file");
    }
    MutexLock lock(StoreMutex());
    Connection connection;
    UCUDNN_RETURN_IF_ERROR(connection.Open(path, Connection::Access::kRead));
    UCUDNN_ASSIGN_OR_RETURN(const Identity identity, Identify(connection, true));
    if (identity.kind == Identity::Kind::kOurs) {
      UCUDNN_RETURN_IF_ERROR(ReadAsCurrent(connection, identity.version));
    }
    return use(connection, identity);
  } catch (const std::exception& error) {
    return Status::Error(path + ": " + error.what());
  }
}

// Runs SQLite's integrity check, which also compares the indexes with the tables. Reports rows and
// promises of families that do not exist, and promises with impossible values. Counts the families,
// verifications, incomplete sizes and promises.
Status CheckWhole(Connection& connection, StoreContents& contents) {
  UCUDNN_ASSIGN_OR_RETURN(Statement check, connection.Prepare("PRAGMA integrity_check(20)"));
  for (;;) {
    UCUDNN_ASSIGN_OR_RETURN(const bool row, check.Step());
    if (!row) break;
    if (check.Text(0) != "ok") contents.faults.push_back(check.Text(0));
  }
  UCUDNN_ASSIGN_OR_RETURN(const int64_t lost,
                          connection.Number("SELECT count(*) FROM measurements WHERE kernel NOT IN "
                                            "(SELECT id FROM families)"));
  if (lost > 0) {
    contents.faults.push_back(std::to_string(lost) + " rows belong to no kernel of the store");
  }
  UCUDNN_ASSIGN_OR_RETURN(const int64_t kernels,
                          connection.Number("SELECT count(*) FROM families"));
  contents.kernels = static_cast<size_t>(kernels);
  if (contents.version < 2) return Status::Ok();
  UCUDNN_ASSIGN_OR_RETURN(const int64_t verified,
                          connection.Number("SELECT count(*) FROM verifications"));
  contents.verified = static_cast<size_t>(verified);
  UCUDNN_ASSIGN_OR_RETURN(
      const int64_t incomplete,
      connection.Number("SELECT count(*) FROM (SELECT DISTINCT kernel, device, cudnn, driver, "
                        "micro_batch FROM measurements WHERE engine NOT IN ('" +
                        EngineId(kPartialSum).Text() + "', '" + EngineId(kPacking).Text() +
                        "') EXCEPT SELECT kernel, device, cudnn, driver, micro_batch FROM "
                        "complete_sizes)"));
  contents.incomplete_sizes = static_cast<size_t>(incomplete);
  if (contents.version < 3) return Status::Ok();
  UCUDNN_ASSIGN_OR_RETURN(const int64_t promises,
                          connection.Number("SELECT count(*) FROM promises"));
  contents.promises = static_cast<size_t>(promises);
  UCUDNN_ASSIGN_OR_RETURN(const int64_t nobodys,
                          connection.Number("SELECT count(*) FROM promises WHERE kernel NOT IN "
                                            "(SELECT id FROM families)"));
  if (nobodys > 0) {
    contents.faults.push_back(std::to_string(nobodys) +
                              " promises belong to no kernel of the store");
  }
  return VisitPromises(connection, contents.version,
                       [&](const Result<planning::EnginePromise>& promise) {
                         if (!promise.ok()) contents.faults.push_back(promise.message());
                       });
}

}  // namespace

Result<StoreContents> Inspect(const std::string& path) {
  StoreContents contents;
  UCUDNN_RETURN_IF_ERROR(WithFile(path, [&](Connection& connection, const Identity& identity) {
    contents.version = identity.version;
    if (identity.kind == Identity::Kind::kUnusable) contents.faults.push_back(identity.reason);
    if (identity.kind != Identity::Kind::kOurs) return Status::Ok();
    UCUDNN_RETURN_IF_ERROR(CheckWhole(connection, contents));
    return VisitRows(
        connection, identity.version,
        [&](int64_t id, const Result<StoredMeasurement>& row, bool imported) {
          ++contents.rows;
          contents.imported += imported ? 1 : 0;
          if (!row.ok()) {
            contents.faults.push_back("row " + std::to_string(id) + ": " + row.message());
            return;
          }
          const planning::Platform& platform = row->platform;
          ++contents.platforms[{platform.device, {platform.cudnn, platform.driver}}];
        });
  }));
  return contents;
}

Result<StoredRows> ReadStore(const std::string& path) {
  StoredRows rows;
  UCUDNN_RETURN_IF_ERROR(WithFile(path, [&](Connection& connection, const Identity& identity) {
    if (identity.kind == Identity::Kind::kUnusable) {
      return Status::Error(path + ": " + identity.reason);
    }
    if (identity.kind == Identity::Kind::kEmpty) return Status::Ok();
    UCUDNN_ASSIGN_OR_RETURN(rows.measurements, ListRows(connection, identity.version));
    UCUDNN_ASSIGN_OR_RETURN(rows.promises, ListPromises(connection, identity.version));
    return Status::Ok();
  }));
  return rows;
}

}  // namespace ucudnn::db
