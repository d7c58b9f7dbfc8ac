#include "db/pruning.h"

namespace ucudnn::db {
namespace {

// Of a file of `version`.
std::string OrphanSql(int64_t version) {
  std::string sql = "id NOT IN (SELECT kernel FROM measurements)";
  // A row of a shared store may be verified here.
  for (const char* table : {"complete_sizes", "verifications"}) {
    if (version >= 2) sql += std::string(" AND id NOT IN (SELECT kernel FROM ") + table + ")";
  }
  return sql;
}

}  // namespace

Result<Pruned> FindOldRows(Connection& connection, int64_t version, const std::string& device) {
  Pruned old;
  UCUDNN_ASSIGN_OR_RETURN(
      Statement select,
      connection.Prepare("SELECT device, cudnn, driver, count(*) FROM measurements WHERE cudnn<>0 "
                         "AND driver<>0 AND ?1 IN ('', device) GROUP BY device, cudnn, driver "
                         "ORDER BY device, cudnn DESC, driver DESC"));
  select.Bind(1, std::string_view(device));
  std::string newest;  // the device whose newest platform was seen
  for (bool first = true;; first = false) {
    UCUDNN_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) break;
    planning::Platform platform{select.Text(0), static_cast<int>(select.Int(1)),
                                static_cast<int>(select.Int(2))};
    if (first || platform.device != newest) {
      newest = platform.device;
      continue;
    }
    old.platforms.emplace_back(std::move(platform), static_cast<size_t>(select.Int(3)));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const int64_t kernels,
      connection.Number("SELECT count(*) FROM kernels WHERE " + OrphanSql(version)));
  old.kernels = static_cast<size_t>(kernels);
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
