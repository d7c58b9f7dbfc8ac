#include "db/promise_rows.h"

#include <limits>

#include "base/log.h"
#include "base/text.h"
#include "db/family.h"

namespace ucudnn::db {
namespace {

using planning::EnginePromise;

constexpr int64_t kFirstVersion = 3;
constexpr const char* kColumns =
    "p.n, p.device, p.cudnn, p.driver, p.engine, p.limit_bytes, p.workspace_bytes, p.undivided, "
    "p.any_engine";
constexpr int kColumnCount = 9;

// Reads the row in kColumns. Of the problem, only the mini-batch is set; the caller adds the
// family.
Result<EnginePromise> ReadPromise(const Statement& row) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (const int column : {0, 2, 3, 5, 6, 8}) {
    if (!row.IsNumber(column)) return Status::Error("a promise holds text in place of a number");
  }
  for (const int column : {0, 2, 3}) {
    if (row.Int(column) < 0 || row.Int(column) > kMost) {
      return Status::Error("a promise holds " + row.Text(column) + ", which is out of range");
    }
  }
  if (row.Int(5) < 0 || row.Int(6) < 0) return Status::Error("a promise of negative workspace");
  EnginePromise promise;
  promise.problem.n = static_cast<int32_t>(row.Int(0));
  promise.platform = {row.Text(1), static_cast<int>(row.Int(2)), static_cast<int>(row.Int(3))};
  promise.engine = row.Text(4);
  promise.limit_bytes = static_cast<size_t>(row.Int(5));
  promise.workspace_bytes = static_cast<size_t>(row.Int(6));
  promise.undivided = row.Text(7);
  promise.any_engine = row.Int(8) != 0;
  UCUDNN_RETURN_IF_ERROR(CheckPromise(promise));
  return promise;
}

// Binds a promise's key to parameters 1 to 7.
void BindKey(Statement& statement, int64_t kernel, const EnginePromise& promise) {
  statement.Bind(1, kernel);
  statement.Bind(2, int64_t{promise.problem.n});
  statement.Bind(3, std::string_view(promise.platform.device));
  statement.Bind(4, int64_t{promise.platform.cudnn});
  statement.Bind(5, int64_t{promise.platform.driver});
  statement.Bind(6, promise.engine.Text());
  statement.Bind(7, static_cast<int64_t>(promise.limit_bytes));
}

}  // namespace

Result<std::optional<EnginePromise>> ReadPromise(Connection& connection, int64_t version,
                                                 const EnginePromise& asked) {
  std::optional<EnginePromise> none;
  if (version < kFirstVersion || !CheckPromiseKey(asked).ok()) return none;
  UCUDNN_ASSIGN_OR_RETURN(Statement find, connection.Prepare(FindKernelSql()));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t kernel, FindKernel(find, KernelFamily(asked.problem)));
  if (kernel == 0) return none;
  UCUDNN_ASSIGN_OR_RETURN(
      Statement select,
      connection.Prepare(std::string("SELECT ") + kColumns +
                         " FROM promises p WHERE p.kernel=? AND p.n=? AND p.device=? AND p.cudnn=?"
                         " AND p.driver=? AND p.engine=? AND p.limit_bytes=?"));
  BindKey(select, kernel, asked);
  UCUDNN_ASSIGN_OR_RETURN(const bool row, select.Step());
  if (!row) return none;
  Result<EnginePromise> promise = ReadPromise(select);
  if (!promise.ok()) return none;
  promise->problem = asked.problem;
  return std::optional<EnginePromise>(std::move(*promise));
}

Result<bool> InsertPromise(Connection& connection, int64_t kernel, const EnginePromise& promise) {
  UCUDNN_ASSIGN_OR_RETURN(
      Statement insert,
      connection.Prepare("INSERT OR IGNORE INTO promises(kernel, n, device, cudnn, driver, engine, "
                         "limit_bytes, workspace_bytes, undivided, any_engine) "
                         "VALUES(?,?,?,?,?,?,?,?,?,?)"));
  BindKey(insert, kernel, promise);
  insert.Bind(8, static_cast<int64_t>(promise.workspace_bytes));
  insert.Bind(9, promise.undivided.Text());
  insert.Bind(10, int64_t{promise.any_engine});
  UCUDNN_RETURN_IF_ERROR(insert.Run());
  return connection.Changes() > 0;
}

Status VisitPromises(Connection& connection, int64_t version,
                     const std::function<void(const Result<EnginePromise>&)>& visit) {
  if (version < kFirstVersion) return Status::Ok();
  UCUDNN_ASSIGN_OR_RETURN(
      Statement select,
      connection.Prepare(std::string("SELECT ") + kColumns + ", k." +
                         Join(FamilyColumns(), ", k.") +
                         " FROM promises p JOIN families k ON k.id=p.kernel ORDER BY "
                         "p.kernel, p.n, p.device, p.cudnn, p.driver, p.engine, "
                         "p.limit_bytes"));
  for (;;) {
    UCUDNN_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return Status::Ok();
    Result<EnginePromise> promise = ReadPromise(select);
    if (promise.ok()) {
      Result<ConvolutionProblem> family = ReadFamily(select, kColumnCount);
      if (family.ok()) {
        family->n = promise->problem.n;
        promise->problem = *family;
      } else {
        promise = family.status();
      }
    }
    visit(promise);
  }
}

Result<std::vector<EnginePromise>> ListPromises(Connection& connection, int64_t version) {
  std::vector<EnginePromise> promises;
  UCUDNN_RETURN_IF_ERROR(
      VisitPromises(connection, version, [&](const Result<EnginePromise>& promise) {
        if (promise.ok()) return promises.push_back(*promise);
        WarnOnce("store promise",
                 "promises of the measurement store are left out: " + promise.message());
      }));
  return promises;
}

}  // namespace ucudnn::db
