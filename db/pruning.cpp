#include "db/pruning.h"

#include "base/text.h"

namespace ucudnn::db {
namespace {

// Returns the tables of a file that refer to families and platforms. Which tables exist depends on
// the schema version and on whether a note was ever written.
Result<std::vector<std::string>> PrunedTables(Connection& connection) {
  std::vector<std::string> tables;
  UCUDNN_ASSIGN_OR_RETURN(
      Statement select,
      connection.Prepare("SELECT name FROM sqlite_schema WHERE type='table' AND name IN "
                         "('measurements', 'complete_sizes', 'verifications', 'promises', 'notes') "
                         "ORDER BY name"));
  for (;;) {
    UCUDNN_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return tables;
    tables.push_back(select.Text(0));
  }
}

// Returns an SQL WITH clause that defines `old`: the platforms to remove. Parameter ?1 names the
// device. If ?1 is empty, `old` has the platforms of all devices.
std::string OldSql(const std::vector<std::string>& tables) {
  return "WITH known AS (SELECT * FROM (SELECT device, cudnn, driver FROM " +
         Join(tables, " UNION SELECT device, cudnn, driver FROM ") +
         ") WHERE cudnn<>0 AND driver<>0 AND ?1 IN ('', device)),"
         " old AS (SELECT * FROM known WHERE EXISTS (SELECT 1 FROM known AS newer WHERE"
         " newer.device=known.device AND (newer.cudnn, newer.driver)>(known.cudnn, "
         "known.driver))) ";
}

// Returns the SQL condition for families to which no row refers. Rows that do not match the WHERE
// clause `but` are ignored.
std::string OrphanSql(const std::vector<std::string>& tables, const std::string& but = "") {
  std::string sql = "1";
  for (const std::string& table : tables) {
    sql += " AND id NOT IN (SELECT kernel FROM " + table + but + ")";
  }
  return sql;
}

}  // namespace

Result<Pruned> FindOldRows(Connection& connection, const std::string& device) {
  Pruned old;
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> tables, PrunedTables(connection));
  UCUDNN_ASSIGN_OR_RETURN(
      Statement select,
      connection.Prepare(OldSql(tables) +
                         "SELECT device, cudnn, driver, (SELECT count(*) FROM measurements AS m"
                         " WHERE (m.device, m.cudnn, m.driver)=(old.device, old.cudnn, old.driver))"
                         " FROM old ORDER BY device, cudnn DESC, driver DESC"));
  select.Bind(1, std::string_view(device));
  for (;;) {
    UCUDNN_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) break;
    planning::Platform platform{select.Text(0), static_cast<int>(select.Int(1)),
                                static_cast<int>(select.Int(2))};
    old.platforms.emplace_back(std::move(platform), static_cast<size_t>(select.Int(3)));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      Statement orphans,
      connection.Prepare(OldSql(tables) + "SELECT count(*) FROM families WHERE " +
                         OrphanSql(tables, " WHERE (device, cudnn, driver) NOT IN old")));
  orphans.Bind(1, std::string_view(device));
  UCUDNN_RETURN_IF_ERROR(orphans.Step().status());
  old.kernels = static_cast<size_t>(orphans.Int(0));
  return old;
}

Result<size_t> RemoveRows(Connection& connection, const Pruned& old) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> tables, PrunedTables(connection));
  for (const std::string& table : tables) {
    UCUDNN_ASSIGN_OR_RETURN(
        Statement remove,
        connection.Prepare("DELETE FROM " + table + " WHERE device=? AND cudnn=? AND driver=?"));
    for (const auto& [platform, rows] : old.platforms) {
      remove.Bind(1, std::string_view(platform.device));
      remove.Bind(2, int64_t{platform.cudnn});
      remove.Bind(3, int64_t{platform.driver});
      UCUDNN_RETURN_IF_ERROR(remove.Run());
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(Statement orphans,
                          connection.Prepare("DELETE FROM families WHERE " + OrphanSql(tables)));
  UCUDNN_RETURN_IF_ERROR(orphans.Run());
  return static_cast<size_t>(connection.Changes());
}

}  // namespace ucudnn::db
