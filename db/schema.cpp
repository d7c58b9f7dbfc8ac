#include "db/schema.h"

#include <cstdlib>

#include "base/text.h"
#include "convolution/columns.h"
#include "db/family.h"

namespace ucudnn::db {
namespace {

// Returns SQL that creates the table `name` of kernel families with these columns.
std::string KernelsSql(const char* name, const std::vector<std::string>& columns) {
  std::string sql = std::string("CREATE TABLE ") + name + "(id INTEGER PRIMARY KEY";
  for (const std::string& column : columns) {
    sql += ", " + column + " " + FamilyColumnType(column) + " NOT NULL";
  }
  return sql + ", UNIQUE(" + Join(columns, ", ") + "));";
}

// Returns the family columns of versions 1 to 3, which stored one pad for both sides of an axis.
std::vector<std::string> ColumnsOfEvenPads() {
  std::vector<std::string> columns = FamilyColumns();
  columns.resize(columns.size() - PostPadColumns().size());
  return columns;
}
constexpr const char* kEvenPads = "pad_d AS pad_d_post, pad_h AS pad_h_post, pad_w AS pad_w_post";

// Returns SQL that creates the tables of version 1 in an empty file.
std::string FirstSql() {
  return KernelsSql("kernels", ColumnsOfEvenPads()) +
         "CREATE TABLE measurements(id INTEGER PRIMARY KEY,"
         " kernel INTEGER NOT NULL REFERENCES kernels(id),"
         " device TEXT NOT NULL, cudnn INTEGER NOT NULL, driver INTEGER NOT NULL,"
         " engine TEXT NOT NULL, micro_batch INTEGER NOT NULL,"
         " time_ms REAL NOT NULL, workspace_bytes INTEGER NOT NULL,"
         " deterministic INTEGER NOT NULL, samples INTEGER NOT NULL, verified INTEGER NOT NULL,"
         " name TEXT NOT NULL, n INTEGER NOT NULL,"
         " UNIQUE(kernel, device, cudnn, driver, engine, micro_batch));"
         "PRAGMA application_id=" +
         std::to_string(kApplicationId);
}

// Updates version 1 to 2. In version 1 all sizes were complete. Its rows with verified = 1 had been
// imported; no run with this store had compared their outputs.
constexpr const char* kSecondSql =
    "ALTER TABLE measurements ADD COLUMN imported INTEGER NOT NULL DEFAULT 0;"
    "UPDATE measurements SET imported=1 WHERE verified<>0;"
    "CREATE TABLE complete_sizes(kernel INTEGER NOT NULL REFERENCES kernels(id),"
    " device TEXT NOT NULL, cudnn INTEGER NOT NULL, driver INTEGER NOT NULL,"
    " micro_batch INTEGER NOT NULL,"
    " PRIMARY KEY(kernel, device, cudnn, driver, micro_batch)) WITHOUT ROWID;"
    "INSERT OR IGNORE INTO complete_sizes"
    " SELECT kernel, device, cudnn, driver, micro_batch FROM measurements;"
    "CREATE TABLE verifications(kernel INTEGER NOT NULL REFERENCES kernels(id),"
    " device TEXT NOT NULL, cudnn INTEGER NOT NULL, driver INTEGER NOT NULL,"
    " micro_batch INTEGER NOT NULL, engine TEXT NOT NULL,"
    " PRIMARY KEY(kernel, device, cudnn, driver, micro_batch, engine)) WITHOUT ROWID";

// Updates version 2 to 3, which added promises.
constexpr const char* kThirdSql =
    "CREATE TABLE promises(kernel INTEGER NOT NULL REFERENCES kernels(id), n INTEGER NOT NULL,"
    " device TEXT NOT NULL, cudnn INTEGER NOT NULL, driver INTEGER NOT NULL,"
    " engine TEXT NOT NULL, limit_bytes INTEGER NOT NULL, workspace_bytes INTEGER NOT NULL,"
    " undivided TEXT NOT NULL, any_engine INTEGER NOT NULL,"
    " PRIMARY KEY(kernel, n, device, cudnn, driver, engine, limit_bytes)) WITHOUT ROWID";

// Returns SQL that updates version 3 to 4. SQLite cannot change the UNIQUE of a table, so the rows
// are copied to a new table with the same ids. The new table is not called `kernels`, so that a
// program of an earlier version that has the file open gets an error. Otherwise it could find a
// wrong family, because it does not know the new columns.
std::string FourthSql() {
  return "DROP VIEW IF EXISTS temp.families;ALTER TABLE kernels RENAME TO families;" +
         KernelsSql("families_4", FamilyColumns()) + "INSERT INTO main.families_4 SELECT id, " +
         Join(ColumnsOfEvenPads(), ", ") + ", " + kEvenPads +
         " FROM main.families;DROP TABLE main.families;ALTER TABLE families_4 RENAME TO families";
}

// The tables of each version, as SQL texts.
constexpr const char* kTables[] = {
    "'kernels','measurements'", "'kernels','measurements','complete_sizes','verifications'",
    "'kernels','measurements','complete_sizes','verifications','promises'",
    "'families','measurements','complete_sizes','verifications','promises'"};
constexpr int kTableCounts[] = {2, 4, 5, 5};

// The table `notes` is created when the first note is written, so a file of version 4 may lack it.
// Earlier programs that know version 4 ignore the table.
constexpr const char* kNotesSql =
    "CREATE TABLE IF NOT EXISTS notes(kernel INTEGER NOT NULL REFERENCES families(id),"
    " n INTEGER NOT NULL, device TEXT NOT NULL, cudnn INTEGER NOT NULL, driver INTEGER NOT NULL,"
    " about TEXT NOT NULL, note TEXT NOT NULL,"
    " PRIMARY KEY(kernel, n, device, cudnn, driver, about)) WITHOUT ROWID";

Identity Unusable(std::string reason) {
  return Identity{Identity::Kind::kUnusable, std::move(reason), 0};
}

// Returns true if quick_check's message reports a page that could not be read. quick_check does not
// stop at such a page; its message ends with SQLite's result code.
bool IsReadFailure(const std::string& verdict) {
  constexpr int kIoError = 10;  // SQLITE_IOERR; the bits above the lowest byte hold details
  const size_t code = verdict.rfind("error code");
  if (code == std::string::npos) return false;
  const size_t digit = verdict.find_first_of("0123456789", code);
  return digit != std::string::npos && (std::atoi(verdict.c_str() + digit) & 0xff) == kIoError;
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
  if (version < 1) return Unusable("it is damaged: tables are missing");
  UCUDNN_ASSIGN_OR_RETURN(
      const int64_t tables,
      connection.Number(std::string("SELECT count(*) FROM sqlite_schema WHERE type='table' "
                                    "AND name IN (") +
                        kTables[version - 1] + ")"));
  if (tables != kTableCounts[version - 1]) return Unusable("it is damaged: tables are missing");
  if (thorough) {
    UCUDNN_ASSIGN_OR_RETURN(Statement check, connection.Prepare("PRAGMA quick_check(1)"));
    UCUDNN_ASSIGN_OR_RETURN(const bool row, check.Step());
    const std::string verdict = row ? check.Text(0) : "no verdict";
    // A page that cannot be read now may be readable later. So the file is not reported as damaged;
    // otherwise a sibling would be used instead.
    if (IsReadFailure(verdict))
      return Status::Error(connection.path() + ": cannot be read: " + verdict);
    if (verdict != "ok") return Unusable("it is damaged: " + verdict);
  }
  return Identity{Identity::Kind::kOurs, {}, version};
}

}  // namespace

Result<Identity> Identify(Connection& connection, bool thorough) {
  // All queries must see one snapshot, because another process may create the tables between two
  // queries.
  UCUDNN_RETURN_IF_ERROR(connection.Execute("SAVEPOINT identify"));
  Result<Identity> identity = ReadIdentity(connection, thorough);
  const Status released = connection.Execute("ROLLBACK TO identify; RELEASE identify");
  if (!connection.damage().empty()) return Unusable("it is damaged: " + connection.damage());
  if (identity.ok() && !released.ok()) return released;
  return identity;
}

Status ReadAsCurrent(Connection& connection, int64_t version) {
  if (version == 0) return Status::Ok();
  return connection.Execute(
      version < 4 ? std::string("PRAGMA temp_store=MEMORY;"
                                "CREATE TEMP VIEW IF NOT EXISTS families AS SELECT *, ") +
                        kEvenPads + " FROM main.kernels"
                  : "DROP VIEW IF EXISTS temp.families");
}

Status MakeNotes(Connection& connection) { return connection.Execute(kNotesSql); }

Result<bool> HasNotes(Connection& connection) {
  UCUDNN_ASSIGN_OR_RETURN(
      const int64_t tables,
      connection.Number("SELECT count(*) FROM sqlite_schema WHERE type='table' AND name='notes'"));
  return tables > 0;
}

Status BringUpToDate(Connection& connection) {
  Transaction transaction(connection);
  UCUDNN_RETURN_IF_ERROR(transaction.Begin());
  UCUDNN_ASSIGN_OR_RETURN(const Identity identity, Identify(connection, false));
  if (identity.kind == Identity::Kind::kUnusable) return Status::Error(identity.reason);
  if (identity.version == kSchemaVersion) return transaction.Commit();
  if (identity.version < 1) UCUDNN_RETURN_IF_ERROR(connection.Execute(FirstSql()));
  if (identity.version < 2) UCUDNN_RETURN_IF_ERROR(connection.Execute(kSecondSql));
  if (identity.version < 3) UCUDNN_RETURN_IF_ERROR(connection.Execute(kThirdSql));
  if (identity.version < 4) UCUDNN_RETURN_IF_ERROR(connection.Execute(FourthSql()));
  UCUDNN_RETURN_IF_ERROR(
      connection.Execute("PRAGMA user_version=" + std::to_string(kSchemaVersion)));
  return transaction.Commit();
}

}  // namespace ucudnn::db
