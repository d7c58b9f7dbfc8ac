#include "db/sqlite_store.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <set>
#include <tuple>

#include "base/log.h"
#include "base/text.h"
#include "convolution/columns.h"
#include "db/schema.h"

namespace ucudnn::db {
namespace {

using planning::Measurement;
using planning::Platform;

constexpr const char* kMeasurementColumns =
    "m.engine, m.micro_batch, m.time_ms, m.workspace_bytes, m.deterministic, m.samples, m.verified";
constexpr int kMeasurementColumnCount = 7;

Measurement ReadMeasurement(const Statement& row, int first) {
  Measurement measurement;
  measurement.micro.engine = row.Text(first);
  measurement.micro.micro_batch = static_cast<int>(row.Int(first + 1));
  measurement.micro.time_ms = row.Real(first + 2);
  measurement.micro.workspace_bytes = static_cast<size_t>(row.Int(first + 3));
  measurement.micro.deterministic = row.Int(first + 4) != 0;
  measurement.samples = static_cast<int>(row.Int(first + 5));
  measurement.verified = row.Int(first + 6) != 0;
  return measurement;
}

// The file may have been edited by hand: a row that breaks what planning relies on is not used.
bool Sound(const Statement& row, int first) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  for (int column = 1; column < kMeasurementColumnCount; ++column) {
    if (!row.IsNumber(first + column)) return false;
  }
  return row.Int(first + 1) >= 1 && row.Int(first + 1) <= kMost &&
         std::isfinite(row.Real(first + 2)) && row.Real(first + 2) >= 0 &&
         row.Int(first + 3) >= 0 && row.Int(first + 5) >= 0 && row.Int(first + 5) <= kMost;
}

Status CheckRow(const StoredMeasurement& row) {
  const MicroConfiguration& micro = row.measurement.micro;
  const auto refuse = [&](const std::string& what) {
    return Status::Error("a measurement of " + Describe(row.problem) +
                         " cannot be stored: " + what);
  };
  for (const std::string* text : {&row.name, &row.platform.device, &micro.engine}) {
    if (text->find('\0') != std::string::npos) return refuse(Quoted(*text) + " holds a NUL byte");
  }
  if (micro.engine.empty()) return refuse("its engine has no name");
  if (micro.micro_batch < 1) {
    return refuse("micro-batch " + std::to_string(micro.micro_batch) + "; expected 1 or more");
  }
  if (!std::isfinite(micro.time_ms) || micro.time_ms < 0) {
    return refuse("time " + std::to_string(micro.time_ms) + " ms; expected 0 or more");
  }
  if (micro.workspace_bytes > static_cast<size_t>(std::numeric_limits<int64_t>::max())) {
    return refuse("a workspace of " + std::to_string(micro.workspace_bytes) + " bytes");
  }
  if (row.measurement.samples < 0) {
    return refuse(std::to_string(row.measurement.samples) + " samples; expected 0 or more");
  }
  return Status::Ok();
}

// Binds the family of `problem` to parameters 1 to N and gives N.
int BindFamily(Statement& statement, const ConvolutionProblem& problem) {
  int parameter = 0;
  for (const FamilyValue& value : FamilyValues(problem)) {
    ++parameter;
    if (value.is_number) {
      statement.Bind(parameter, value.number);
    } else {
      statement.Bind(parameter, std::string_view(value.text));
    }
  }
  return parameter;
}

std::string FindKernelSql() {
  return "SELECT id FROM kernels WHERE " + Join(FamilyColumns(), "=? AND ") + "=?";
}

// The id of a kernel family; 0 when the store has none of it.
Result<int64_t> FindKernel(Statement& find, const ConvolutionProblem& problem) {
  BindFamily(find, problem);
  UCUDNN_ASSIGN_OR_RETURN(const bool row, find.Step());
  const int64_t id = row ? find.Int(0) : 0;
  if (row) UCUDNN_RETURN_IF_ERROR(find.Run());  // ids are unique: leaves the statement ready
  return id;
}

// Inserts rows through statements that are prepared once.
class Writer {
 public:
  static Result<Writer> Prepare(Connection& connection) {
    std::string marks = "?";
    for (size_t i = 1; i < FamilyColumns().size(); ++i) marks += ",?";
    UCUDNN_ASSIGN_OR_RETURN(Statement kernel, connection.Prepare("INSERT OR IGNORE INTO kernels(" +
                                                                 Join(FamilyColumns(), ",") +
                                                                 ") VALUES(" + marks + ")"));
    UCUDNN_ASSIGN_OR_RETURN(Statement find, connection.Prepare(FindKernelSql()));
    UCUDNN_ASSIGN_OR_RETURN(
        Statement measurement,
        connection.Prepare("INSERT OR IGNORE INTO measurements(kernel, device, cudnn, driver, "
                           "engine, micro_batch, time_ms, workspace_bytes, deterministic, samples, "
                           "verified, name, n) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)"));
    return Writer(connection, std::move(kernel), std::move(find), std::move(measurement));
  }

  // True: the row is new.
  Result<bool> Insert(const StoredMeasurement& row) {
    const ConvolutionProblem family = KernelFamily(row.problem);
    if (id_ == 0 || !(family == family_)) {
      BindFamily(kernel_, family);
      UCUDNN_RETURN_IF_ERROR(kernel_.Run());
      UCUDNN_ASSIGN_OR_RETURN(id_, FindKernel(find_, family));
      family_ = family;
    }
    const MicroConfiguration& micro = row.measurement.micro;
    measurement_.Bind(1, id_);
    measurement_.Bind(2, std::string_view(row.platform.device));
    measurement_.Bind(3, int64_t{row.platform.cudnn});
    measurement_.Bind(4, int64_t{row.platform.driver});
    measurement_.Bind(5, std::string_view(micro.engine));
    measurement_.Bind(6, int64_t{micro.micro_batch});
    measurement_.Bind(7, micro.time_ms);
    measurement_.Bind(8, static_cast<int64_t>(micro.workspace_bytes));
    measurement_.Bind(9, int64_t{micro.deterministic});
    measurement_.Bind(10, int64_t{row.measurement.samples});
    measurement_.Bind(11, int64_t{row.measurement.verified});
    measurement_.Bind(12, std::string_view(row.name));
    measurement_.Bind(13, int64_t{row.problem.n});
    UCUDNN_RETURN_IF_ERROR(measurement_.Run());
    return connection_->Changes() > 0;
  }

 private:
  Writer(Connection& connection, Statement kernel, Statement find, Statement measurement)
      : connection_(&connection),
        kernel_(std::move(kernel)),
        find_(std::move(find)),
        measurement_(std::move(measurement)) {}

  Connection* connection_;
  Statement kernel_;
  Statement find_;
  Statement measurement_;
  ConvolutionProblem family_;
  int64_t id_ = 0;
};

struct PlatformRow {
  int64_t cudnn = 0;
  int64_t driver = 0;
  Measurement measurement;
};

// All rows of a kernel on a device; a number of 0 in `platform` matches any.
Status ReadRows(Connection& connection, const ConvolutionProblem& family, const Platform& platform,
                std::vector<PlatformRow>& rows) {
  UCUDNN_ASSIGN_OR_RETURN(Statement find, connection.Prepare(FindKernelSql()));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t kernel, FindKernel(find, family));
  if (kernel == 0) return Status::Ok();
  UCUDNN_ASSIGN_OR_RETURN(
      Statement select,
      connection.Prepare(std::string("SELECT ") + kMeasurementColumns +
                         ", m.cudnn, m.driver FROM measurements m WHERE m.kernel=? AND m.device=? "
                         "AND ?3 IN (0, m.cudnn) AND ?4 IN (0, m.driver) "
                         "ORDER BY m.micro_batch, m.engine"));
  select.Bind(1, kernel);
  select.Bind(2, std::string_view(platform.device));
  select.Bind(3, int64_t{platform.cudnn});
  select.Bind(4, int64_t{platform.driver});
  for (;;) {
    UCUDNN_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return Status::Ok();
    if (!Sound(select, 0)) continue;
    rows.push_back({select.Int(kMeasurementColumnCount), select.Int(kMeasurementColumnCount + 1),
                    ReadMeasurement(select, 0)});
  }
}

Status ListRows(Connection& connection, std::vector<StoredMeasurement>& rows) {
  UCUDNN_ASSIGN_OR_RETURN(
      Statement select,
      connection.Prepare(std::string("SELECT ") + kMeasurementColumns +
                         ", m.device, m.cudnn, m.driver, m.name, m.n, k." +
                         Join(FamilyColumns(), ", k.") +
                         " FROM measurements m JOIN kernels k ON k.id=m.kernel ORDER BY m.id"));
  for (;;) {
    UCUDNN_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return Status::Ok();
    int column = kMeasurementColumnCount;
    StoredMeasurement stored;
    stored.platform.device = select.Text(column++);
    stored.platform.cudnn = static_cast<int>(select.Int(column++));
    stored.platform.driver = static_cast<int>(select.Int(column++));
    stored.name = select.Text(column++);
    const auto n = static_cast<int32_t>(select.Int(column++));
    const Result<ConvolutionProblem> family = ReadFamily(select, column);
    if (!family.ok() || !Sound(select, 0) || n < 0) {
      WarnOnce("store row", "rows of the measurement store are left out: " +
                                (family.ok() ? "a value is out of range" : family.message()));
      continue;
    }
    stored.problem = *family;
    stored.problem.n = n;
    stored.measurement = ReadMeasurement(select, 0);
    rows.push_back(std::move(stored));
  }
}

}  // namespace

SqliteStore::SqliteStore(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    files_.push_back(std::make_unique<StoreFile>(path, files_.empty()));
  }
}

Status SqliteStore::With(StoreFile& file, bool write,
                         const std::function<Status(Connection*)>& use) {
  try {
    std::lock_guard lock(StoreMutex());
    for (;;) {
      const Result<Connection*> connection = write ? file.ForWriting() : file.ForReading();
      const Status status = connection.ok() ? use(*connection) : connection.status();
      if (status.ok() || !file.SetAsideIfDamaged()) return status;
    }
  } catch (const std::exception& error) {
    return Status::Error(file.path() + ": " + error.what());
  }
}

Status SqliteStore::ForEachFile(const std::function<Status(Connection&)>& read) {
  Status first_failure;
  bool any = files_.empty();
  for (const auto& file : files_) {
    const Status status = With(*file, false, [&](Connection* connection) {
      return connection == nullptr ? Status::Ok() : read(*connection);
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

Result<std::vector<Measurement>> SqliteStore::Read(const ConvolutionProblem& problem,
                                                   const Platform& platform) {
  const ConvolutionProblem family = KernelFamily(problem);
  std::vector<PlatformRow> rows;
  UCUDNN_RETURN_IF_ERROR(ForEachFile([&](Connection& connection) {
    std::vector<PlatformRow> found;
    UCUDNN_RETURN_IF_ERROR(ReadRows(connection, family, platform, found));
    rows.insert(rows.end(), found.begin(), found.end());
    return Status::Ok();
  }));
  std::pair<int64_t, int64_t> newest = {0, 0};
  for (const PlatformRow& row : rows) newest = std::max(newest, {row.cudnn, row.driver});

  std::vector<Measurement> measurements;
  std::set<std::pair<int, std::string>> keys;
  for (PlatformRow& row : rows) {
    const MicroConfiguration& micro = row.measurement.micro;
    if (std::pair(row.cudnn, row.driver) == newest &&
        keys.emplace(micro.micro_batch, micro.engine).second) {
      measurements.push_back(std::move(row.measurement));
    }
  }
  return measurements;
}

Status SqliteStore::Write(const ConvolutionProblem& problem, const Platform& platform,
                          const std::vector<Measurement>& measurements) {
  std::vector<StoredMeasurement> rows;
  for (const Measurement& measurement : measurements) {
    rows.push_back({"", problem, platform, measurement});
  }
  return Add(rows).status();
}

Result<size_t> SqliteStore::Add(const std::vector<StoredMeasurement>& rows) {
  for (const StoredMeasurement& row : rows) UCUDNN_RETURN_IF_ERROR(CheckRow(row));
  if (files_.empty() || rows.empty()) return size_t{0};
  size_t added = 0;
  UCUDNN_RETURN_IF_ERROR(With(*files_.front(), true, [&](Connection* connection) {
    added = 0;
    Transaction transaction(*connection);
    UCUDNN_RETURN_IF_ERROR(transaction.Begin());
    {
      // Statements end before the transaction does.
      UCUDNN_ASSIGN_OR_RETURN(Writer writer, Writer::Prepare(*connection));
      for (const StoredMeasurement& row : rows) {
        UCUDNN_ASSIGN_OR_RETURN(const bool is_new, writer.Insert(row));
        added += is_new ? 1 : 0;
      }
    }
    return transaction.Commit();
  }));
  return added;
}

Result<std::vector<StoredMeasurement>> SqliteStore::List() {
  std::vector<StoredMeasurement> rows;
  UCUDNN_RETURN_IF_ERROR(ForEachFile([&](Connection& connection) {
    std::vector<StoredMeasurement> found;
    UCUDNN_RETURN_IF_ERROR(ListRows(connection, found));
    rows.insert(rows.end(), found.begin(), found.end());
    return Status::Ok();
  }));
  if (files_.size() < 2) return rows;

  std::set<std::vector<std::string>> keys;
  std::vector<StoredMeasurement> unique;
  for (StoredMeasurement& row : rows) {
    std::vector<std::string> key = {row.platform.device, std::to_string(row.platform.cudnn),
                                    std::to_string(row.platform.driver),
                                    row.measurement.micro.engine,
                                    std::to_string(row.measurement.micro.micro_batch)};
    for (FamilyValue& value : FamilyValues(row.problem)) key.push_back(std::move(value.text));
    if (keys.insert(std::move(key)).second) unique.push_back(std::move(row));
  }
  return unique;
}

}  // namespace ucudnn::db
