#include "db/pruning.h"

namespace ucudnn::db {
namespace {

// The table `old` of platforms to remove, of device ?1 or of all where that is empty.
constexpr const char* kOldSql =
    "WITH known AS (SELECT DISTINCT device, cudnn, driver FROM measurements"
    " WHERE cudnn<>0 AND driver<>0 AND ?1 IN ('', device)),"
    " old AS (SELECT * FROM known WHERE EXISTS (SELECT 1 FROM known AS newer WHERE"
    " newer.device=known.device AND (newer.cudnn, newer.driver)>(known.cudnn, known.driver))) ";

// Kernels that nothing refers to, in a file of `version`; `but` leaves out some references.
std::string OrphanSql(int64_t version, const std::string& but = "") {
  std::string sql = "id NOT IN (SELECT kernel FROM measurements" + but + ")";
  // A row of a shared store may be verified here.
  for (const char* table : {"complete_sizes", "verifications"}) {
    if (version >= 2) sql += std::string(" AND id NOT IN (SELECT kernel FROM ") + table + but + ")";
  }
  return sql;
}

}  // namespace

Result<Pruned> FindOldRows(Connection& connection, int64_t version, const std::string& device) {
  Pruned old;
  UCUDNN_ASSIGN_OR_RETURN(
      Statement select,
      connection.Prepare(std::string(kOldSql) +
                         "SELECT device, cudnn, driver, count(*) FROM measurements"
                         " WHERE (device, cudnn, driver) IN old GROUP BY device, cudnn, driver"
                         " ORDER BY device, cudnn DESC, driver DESC"));
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
      connection.Prepare(std::string(kOldSql) + "SELECT count(*) FROM kernels WHERE " +
                         OrphanSql(version, " WHERE (device, cudnn, driver) NOT IN old")));
  orphans.Bind(1, std::string_view(device));
  UCUDNN_RETURN_IF_ERROR(orphans.Step().status());
  old.kernels = static_cast<size_t>(orphans.Int(0));
  return old;
}

Result<size_t> RemoveRows(Connection& connection, const Pruned& old) {
  for (const char* table : {"measurements", "complete_sizes", "verifications"}) {
    UCUDNN_ASSIGN_OR_RETURN(Statement remove,
                            connection.Prepare(std::string("DELETE FROM ") + table +
                                               " WHERE device=? AND cudnn=? AND driver=?"));
    for (const auto& [platform, rows] : old.platforms) {
      remove.Bind(1, std::string_view(platform.device));
      remove.Bind(2, int64_t{platform.cudnn});
      remove.Bind(3, int64_t{platform.driver});
      UCUDNN_RETURN_IF_ERROR(remove.Run());
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(Statement orphans,
                          connection.Prepare("DELETE FROM kernels WHERE " + OrphanSql(2)));
  UCUDNN_RETURN_IF_ERROR(orphans.Run());
  return static_cast<size_t>(connection.Changes());
}

}  // namespace ucudnn::db
