#include "db/pruning.h"

#include "db/schema.h"

namespace ucudnn::db {
namespace {

// Tables that refer to kernels and platforms, each since a schema version.
struct Table {
  const char* name;
  int64_t since;
};
constexpr Table kPruned[] = {
    {"measurements", 1}, {"complete_sizes", 2}, {"verifications", 2}, {"promises", 3}};

// The table `old` of platforms to remove from a file of `version`, of device ?1 or of all where
// that is empty.
std::string OldSql(int64_t version) {
  std::string platforms;
  for (const Table& table : kPruned) {
    if (table.since > version) continue;
    platforms += std::string(platforms.empty() ? "" : " UNION ") +
                 "SELECT device, cudnn, driver FROM " + table.name;
  }
  return "WITH known AS (SELECT * FROM (" + platforms +
         ") WHERE cudnn<>0 AND driver<>0 AND ?1 IN ('', device)),"
         " old AS (SELECT * FROM known WHERE EXISTS (SELECT 1 FROM known AS newer WHERE"
         " newer.device=known.device AND (newer.cudnn, newer.driver)>(known.cudnn, "
         "known.driver))) ";
}

// Kernels that nothing refers to, in a file of `version`; `but` leaves out some references.
std::string OrphanSql(int64_t version, const std::string& but = "") {
  std::string sql = "1";
  for (const Table& table : kPruned) {
    if (table.since > version) continue;
    sql += std::string(" AND id NOT IN (SELECT kernel FROM ") + table.name + but + ")";
  }
  return sql;
}

}  // namespace

Result<Pruned> FindOldRows(Connection& connection, int64_t version, const std::string& device) {
  Pruned old;
  UCUDNN_ASSIGN_OR_RETURN(
      Statement select,
      connection.Prepare(OldSql(version) +
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
      connection.Prepare(OldSql(version) + "SELECT count(*) FROM families WHERE " +
                         OrphanSql(version, " WHERE (device, cudnn, driver) NOT IN old")));
  orphans.Bind(1, std::string_view(device));
  UCUDNN_RETURN_IF_ERROR(orphans.Step().status());
  old.kernels = static_cast<size_t>(orphans.Int(0));
  return old;
}

Result<size_t> RemoveRows(Connection& connection, const Pruned& old) {
  for (const Table& table : kPruned) {
    UCUDNN_ASSIGN_OR_RETURN(Statement remove,
                            connection.Prepare(std::string("DELETE FROM ") + table.name +
                                               " WHERE device=? AND cudnn=? AND driver=?"));
    for (const auto& [platform, rows] : old.platforms) {
      remove.Bind(1, std::string_view(platform.device));
      remove.Bind(2, int64_t{platform.cudnn});
      remove.Bind(3, int64_t{platform.driver});
      UCUDNN_RETURN_IF_ERROR(remove.Run());
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(Statement orphans, connection.Prepare("DELETE FROM families WHERE " +
                                                                OrphanSql(kSchemaVersion)));
  UCUDNN_RETURN_IF_ERROR(orphans.Run());
  return static_cast<size_t>(connection.Changes());
}

}  // namespace ucudnn::db
