#include "db/schema.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "convolution/columns.h"

namespace ucudnn::db {
namespace {

bool IsText(const std::string& column) {
  static constexpr const char* kTextColumns[] = {"op",      "dtype", "layout",    "math",
                                                 "compute", "mode",  "x_strides", "y_strides"};
  return std::find(std::begin(kTextColumns), std::end(kTextColumns), column) !=
         std::end(kTextColumns);
}

std::string SchemaSql() {
  std::string kernels = "CREATE TABLE kernels(id INTEGER PRIMARY KEY";
  for (const std::string& column : FamilyColumns()) {
    kernels += ", " + column + (IsText(column) ? " TEXT NOT NULL" : " INTEGER NOT NULL");
  }
  kernels += ", UNIQUE(" + Join(FamilyColumns(), ", ") + "));";
  return kernels +
         "CREATE TABLE measurements(id INTEGER PRIMARY KEY,"
         " kernel INTEGER NOT NULL REFERENCES kernels(id),"
         " device TEXT NOT NULL, cudnn INTEGER NOT NULL, driver INTEGER NOT NULL,"
         " engine TEXT NOT NULL, micro_batch INTEGER NOT NULL,"
         " time_ms REAL NOT NULL, workspace_bytes INTEGER NOT NULL,"
         " deterministic INTEGER NOT NULL, samples INTEGER NOT NULL, verified INTEGER NOT NULL,"
         " name TEXT NOT NULL, n INTEGER NOT NULL,"
         " UNIQUE(kernel, device, cudnn, driver, engine, micro_batch));"
         "PRAGMA application_id=" +
         std::to_string(kApplicationId) + ";PRAGMA user_version=" + std::to_string(kSchemaVersion);
}

Identity Unusable(std::string reason) {
  return Identity{Identity::Kind::kUnusable, std::move(reason)};
}

Result<Identity> ReadIdentity(Connection& connection, bool thorough) {
  UCUDNN_ASSIGN_OR_RETURN(const int64_t application, connection.Number("PRAGMA application_id"));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t version, connection.Number("PRAGMA user_version"));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t objects,
                          connection.Number("SELECT count(*) FROM sqlite_schema"));
  if (application == 0 && version == 0 && objects == 0) return Identity{};
  if (application != kApplicationId) return Unusable("it is another program's database");
  if (version > kSchemaVersion) {
    return Unusable("its schema version is " + std::to_string(version) +
                    " and this ucudnn knows versions up to " + std::to_string(kSchemaVersion));
  }
  UCUDNN_ASSIGN_OR_RETURN(const int64_t tables,
                          connection.Number("SELECT count(*) FROM sqlite_schema WHERE type='table' "
                                            "AND name IN ('kernels','measurements')"));
  if (version < 1 || tables != 2) return Unusable("it is damaged: tables are missing");
  if (thorough) {
    UCUDNN_ASSIGN_OR_RETURN(Statement check, connection.Prepare("PRAGMA quick_check(1)"));
    UCUDNN_ASSIGN_OR_RETURN(const bool row, check.Step());
    if (!row || check.Text(0) != "ok") return Unusable("it is damaged: " + check.Text(0));
  }
  return Identity{Identity::Kind::kOurs, {}};
}

}  // namespace

Result<Identity> Identify(Connection& connection, bool thorough) {
  // One snapshot: another process may be creating the tables between two questions.
  UCUDNN_RETURN_IF_ERROR(connection.Execute("SAVEPOINT identify"));
  Result<Identity> identity = ReadIdentity(connection, thorough);
  const Status released = connection.Execute("ROLLBACK TO identify; RELEASE identify");
  if (!connection.damage().empty()) return Unusable("it is damaged: " + connection.damage());
  if (identity.ok() && !released.ok()) return released;
  return identity;
}

Status CreateSchema(Connection& connection) {
  Transaction transaction(connection);
  UCUDNN_RETURN_IF_ERROR(transaction.Begin());
  UCUDNN_ASSIGN_OR_RETURN(const Identity identity, Identify(connection, false));
  if (identity.kind == Identity::Kind::kUnusable) return Status::Error(identity.reason);
  if (identity.kind == Identity::Kind::kEmpty) {
    UCUDNN_RETURN_IF_ERROR(connection.Execute(SchemaSql()));
  }
  return transaction.Commit();
}

const std::vector<std::string>& FamilyColumns() {
  static const auto* const columns = [] {
    auto* all = new std::vector<std::string>{"op"};
    all->insert(all->end(), LayerColumns().begin(), LayerColumns().end());
    all->insert(all->end(), NumericColumns().begin(), NumericColumns().end());
    return all;
  }();
  return *columns;
}

std::vector<FamilyValue> FamilyValues(const ConvolutionProblem& problem) {
  std::map<std::string, std::string> texts = {{"op", OperationName(problem.operation)}};
  for (auto& [column, text] : ToColumns(problem)) texts[column] = std::move(text);
  std::vector<FamilyValue> values;
  for (const std::string& column : FamilyColumns()) {
    FamilyValue& value = values.emplace_back();
    value.is_number = !IsText(column);
    value.text = texts[column];
    // Absent numbers: 0, as the five depth columns of a 2-D kernel; no alignment demand is 1.
    if (value.is_number) {
      value.number = !value.text.empty() ? std::stoll(value.text) : column == "align" ? 1 : 0;
    }
  }
  return values;
}

Result<ConvolutionProblem> ReadFamily(const Statement& statement, int first) {
  std::map<std::string, std::string> texts;
  for (const std::string& column : FamilyColumns()) texts[column] = statement.Text(first++);
  if (texts["d"] == "0") {
    for (const char* column : {"d", "t", "pad_d", "stride_d", "dilation_d"}) texts[column].clear();
  }
  return FromColumns([&](const std::string& column) -> const std::string* {
    const auto found = texts.find(column);
    return found == texts.end() || found->second.empty() ? nullptr : &found->second;
  });
}

}  // namespace ucudnn::db
