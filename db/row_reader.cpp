#include "db/row_reader.h"

#include <cmath>
#include <limits>

#include "base/log.h"
#include "base/text.h"
#include "db/family.h"
#include "db/schema.h"

namespace ucudnn::db {
namespace {

using planning::Measurement;

constexpr const char* kMeasurementColumns =
    "m.engine, m.micro_batch, m.time_ms, m.workspace_bytes, m.deterministic, m.samples, m.verified";
constexpr int kMeasurementColumnCount = 7;
constexpr const char* kOnPlatform =
    " WHERE m.kernel=?1 AND m.device=?2 AND ?3 IN (0, m.cudnn) AND ?4 IN (0, m.driver)";

// Returns false if the row, perhaps edited by hand, has values that the planner cannot use; the row
// is then skipped.
bool ReadMeasurement(const Statement& row, Measurement& measurement) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  for (int column = 1; column < kMeasurementColumnCount; ++column) {
    if (!row.IsNumber(column)) return false;
  }
  const int64_t micro_batch = row.Int(1);
  const double time_ms = row.Real(2);
  const int64_t workspace_bytes = row.Int(3);
  const int64_t samples = row.Int(5);
  if (micro_batch < 1 || micro_batch > kMost || !std::isfinite(time_ms) || time_ms < 0 ||
      workspace_bytes < 0 || samples < 0 || samples > kMost) {
    return false;
  }
  measurement.micro = {row.Text(0), static_cast<int>(micro_batch), time_ms,
                       static_cast<size_t>(workspace_bytes), row.Int(4) != 0};
  measurement.samples = static_cast<int>(samples);
  measurement.verified = row.Int(6) != 0;
  return !measurement.micro.engine.empty();
}

// Binds the family's id `kernel` and the platform to `select`, and calls `visit` for each row.
template <typename Visit>
Status ForEach(Statement& select, int64_t kernel, const planning::Platform& platform,
               const Visit& visit) {
  select.Bind(1, kernel);
  select.Bind(2, std::string_view(platform.device));
  select.Bind(3, int64_t{platform.cudnn});
  select.Bind(4, int64_t{platform.driver});
  for (;;) {
    UCUDNN_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return Status::Ok();
    visit();
  }
}

}  // namespace

Status ReadFacts(Connection& connection, int64_t version, const ConvolutionProblem& family,
                 const planning::Platform& platform, FactsByVersion& facts) {
  UCUDNN_ASSIGN_OR_RETURN(Statement find, connection.Prepare(FindKernelSql()));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t kernel, FindKernel(find, family));
  if (kernel == 0) return Status::Ok();
  const auto of = [&](const Statement& row, int column) -> KernelFacts& {
    return facts[{static_cast<int>(row.Int(column)), static_cast<int>(row.Int(column + 1))}];
  };
  UCUDNN_ASSIGN_OR_RETURN(
      Statement rows, connection.Prepare(std::string("SELECT ") + kMeasurementColumns +
                                         ", m.cudnn, m.driver FROM measurements m" + kOnPlatform));
  UCUDNN_RETURN_IF_ERROR(ForEach(rows, kernel, platform, [&] {
    Measurement row;
    if (!ReadMeasurement(rows, row)) return;
    KernelFacts& found = of(rows, kMeasurementColumnCount);
    // In files of version 1 all sizes are complete, and the rows' `verified` is ignored.
    if (version < 2) found.complete_sizes.insert(row.micro.micro_batch);
    found.rows.push_back(std::move(row));
  }));
  if (version < 2) return Status::Ok();
  UCUDNN_ASSIGN_OR_RETURN(
      Statement complete,
      connection.Prepare(
          std::string("SELECT m.micro_batch, m.cudnn, m.driver FROM complete_sizes m") +
          kOnPlatform));
  UCUDNN_RETURN_IF_ERROR(ForEach(complete, kernel, platform, [&] {
    of(complete, 1).complete_sizes.insert(static_cast<int>(complete.Int(0)));
  }));
  UCUDNN_ASSIGN_OR_RETURN(
      Statement verified,
      connection.Prepare(
          std::string("SELECT m.micro_batch, m.engine, m.cudnn, m.driver FROM verifications m") +
          kOnPlatform));
  return ForEach(verified, kernel, platform, [&] {
    of(verified, 2).verified.emplace(static_cast<int>(verified.Int(0)), verified.Text(1));
  });
}

Result<std::optional<std::string>> ReadNote(Connection& connection,
                                            const ConvolutionProblem& problem,
                                            const planning::Platform& platform,
                                            const std::string& about) {
  std::optional<std::string> note;
  Result<Statement> select = connection.Prepare(
      "SELECT note FROM notes WHERE kernel=?1 AND device=?2 AND cudnn=?3 AND driver=?4 AND n=?5 "
      "AND about=?6");
  if (!select.ok()) {
    UCUDNN_ASSIGN_OR_RETURN(const bool any, HasNotes(connection));
    return any ? Result<std::optional<std::string>>(select.status()) : note;
  }
  UCUDNN_ASSIGN_OR_RETURN(Statement find, connection.Prepare(FindKernelSql()));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t kernel, FindKernel(find, KernelFamily(problem)));
  if (kernel == 0) return note;
  select->Bind(5, int64_t{problem.n});
  select->Bind(6, std::string_view(about));
  UCUDNN_RETURN_IF_ERROR(ForEach(*select, kernel, platform, [&] { note = select->Text(0); }));
  return note;
}

namespace {

// Reads the row from the columns that VisitRows selects.
Result<StoredMeasurement> ReadRow(const Statement& row) {
  int column = kMeasurementColumnCount;
  StoredMeasurement stored;
  stored.platform.device = row.Text(column++);
  stored.platform.cudnn = static_cast<int>(row.Int(column++));
  stored.platform.driver = static_cast<int>(row.Int(column++));
  stored.name = row.Text(column++);
  const int64_t n = row.Int(column++);
  const bool verified_here = row.Int(column++) != 0;
  stored.complete = row.Int(column++) != 0;
  UCUDNN_ASSIGN_OR_RETURN(stored.problem, ReadFamily(row, column));
  if (n < 0 || n > std::numeric_limits<int32_t>::max()) {
    return Status::Error("a mini-batch of " + std::to_string(n));
  }
  stored.problem.n = static_cast<int32_t>(n);
  if (!ReadMeasurement(row, stored.measurement)) {
    return Status::Error("engine '" + row.Text(0) + "', micro-batch " + row.Text(1) + ", time " +
                         row.Text(2) + " ms, workspace " + row.Text(3) + " bytes, " + row.Text(5) +
                         " samples: a value is missing or out of range");
  }
  stored.measurement.verified |= verified_here;
  return stored;
}

}  // namespace

Status VisitRows(Connection& connection, int64_t version, const RowVisitor& visit) {
  const std::string same =
      " t WHERE t.kernel=m.kernel AND t.device=m.device AND t.cudnn=m.cudnn AND "
      "t.driver=m.driver AND t.micro_batch=m.micro_batch";
  const std::string marks =
      version < 2 ? "0, 1"
                  : "EXISTS(SELECT 1 FROM verifications" + same +
                        " AND t.engine=m.engine), EXISTS(SELECT 1 FROM complete_sizes" + same + ")";
  UCUDNN_ASSIGN_OR_RETURN(
      Statement select,
      connection.Prepare(std::string("SELECT ") + kMeasurementColumns +
                         ", m.device, m.cudnn, m.driver, m.name, m.n, " + marks + ", k." +
                         Join(FamilyColumns(), ", k.") + ", m.id, " +
                         (version < 2 ? "0" : "m.imported") +
                         " FROM measurements m JOIN families k ON k.id=m.kernel ORDER BY m.id"));
  const int after =
      // The query selects 7 columns from device to complete.
      kMeasurementColumnCount + 7 + static_cast<int>(FamilyColumns().size());
  for (;;) {
    UCUDNN_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return Status::Ok();
    visit(select.Int(after), ReadRow(select), select.Int(after + 1) != 0);
  }
}

Result<std::vector<StoredMeasurement>> ListRows(Connection& connection, int64_t version) {
  std::vector<StoredMeasurement> rows;
  UCUDNN_RETURN_IF_ERROR(
      VisitRows(connection, version, [&](int64_t, const Result<StoredMeasurement>& row, bool) {
        if (row.ok()) return rows.push_back(*row);
        WarnOnce("store row", "rows of the measurement store are left out: " + row.message());
      }));
  return rows;
}

}  // namespace ucudnn::db
