#include "db/connection.h"

#include <sqlite3.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace ucudnn::db {
namespace {

constexpr int kBusyTimeoutMs = 5000;
constexpr int kBusyPollMs = 5;

// SQLite's busy handler. Waits for a lock that another process holds. Returns 0 to give up. Polls
// at equal intervals. SQLite's own handler would slow down to one try per 100 ms, and a process
// that writes without a pause would then starve the waiting processes.
int WaitWhileBusy(void* locks_fail, int tries) {
  // SQLite reports ENOLCK as if another process held the lock. On a file system without locks (NFS
  // without its lock service) waiting is useless. errno still has the value that fcntl set.
  *static_cast<bool*>(locks_fail) = errno == ENOLCK;
  if (errno == ENOLCK || tries * kBusyPollMs >= kBusyTimeoutMs) return 0;
  sqlite3_sleep(kBusyPollMs);
  return 1;
}

// Returns the time of this process's last commit. REQUIRES: the store's lock is held.
std::chrono::steady_clock::time_point& LastCommit() {
  static std::chrono::steady_clock::time_point last;
  return last;
}

}  // namespace

Statement::Statement(Connection* connection, sqlite3_stmt* statement, sqlite3_stmt** place)
    : connection_(connection), statement_(statement), place_(place) {}

Statement::Statement(Statement&& other) noexcept
    : connection_(other.connection_),
      statement_(std::exchange(other.statement_, nullptr)),
      place_(other.place_),
      bound_(std::move(other.bound_)) {}

Statement::~Statement() {
  if (statement_ == nullptr || *place_ != nullptr) {
    sqlite3_finalize(statement_);
    return;
  }
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  *place_ = statement_;
}

void Statement::NoteBound(int code) {
  if (code != SQLITE_OK && bound_.ok()) bound_ = connection_->Fault("cannot bind a value");
}

void Statement::Bind(int parameter, int64_t value) {
  NoteBound(sqlite3_bind_int64(statement_, parameter, value));
}

void Statement::Bind(int parameter, double value) {
  NoteBound(sqlite3_bind_double(statement_, parameter, value));
}

void Statement::Bind(int parameter, std::string_view value) {
  // sqlite3_bind_text64 binds NULL for a null pointer; the statements need the empty text.
  const char* text = value.data() != nullptr ? value.data() : "";
  NoteBound(sqlite3_bind_text64(statement_, parameter, text, value.size(), SQLITE_TRANSIENT,
                                SQLITE_UTF8));
}

Result<bool> Statement::Step() {
  UCUDNN_RETURN_IF_ERROR(bound_);
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  const Status status = code == SQLITE_DONE ? Status::Ok() : connection_->Fault("failed");
  sqlite3_reset(statement_);
  if (!status.ok()) return status;
  return false;
}

Status Statement::Run() { return Step().status(); }

bool Statement::IsNumber(int column) const {
  const int type = sqlite3_column_type(statement_, column);
  return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_, column); }

double Statement::Real(int column) const { return sqlite3_column_double(statement_, column); }

std::string Statement::Text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (text == nullptr) return {};
  return std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

Status Connection::Fault(const std::string& doing) {
  if (connection_ == nullptr) return Status::Error(path_ + ": " + doing + ": out of memory");
  const int code = sqlite3_errcode(connection_) & 0xff;
  if (damage_.empty() && (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)) {
    damage_ = sqlite3_errmsg(connection_);
  }
  if (code == SQLITE_BUSY && locks_fail_) {
    return Status::Error(path_ + ": " + doing + ": the file system has no locks (ENOLCK)");
  }
  return Status::Error(path_ + ": " + doing + ": " + sqlite3_errmsg(connection_));
}

Status Connection::Open(const std::string& path, Access access) {
  path_ = path;
  damage_.clear();
  locks_fail_ = false;
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  switch (access) {
    case Access::kRead:
      flags |= SQLITE_OPEN_READONLY;
      break;
    case Access::kWrite:
      flags |= SQLITE_OPEN_READWRITE;
      break;
    case Access::kCreate:
      flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
      break;
  }
  // SQLite need not count the memory that it allocates, because nothing reads the count.
  [[maybe_unused]] static const int counts_nothing = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  // SQLite parses a name as a URI only if it starts with "file:"; this name starts with "/" or
  // "./".
  const std::string name = path.front() == '/' ? path : "./" + path;
  if (sqlite3_open_v2(name.c_str(), &connection_, flags, nullptr) != SQLITE_OK) {
    const Status status = Fault("cannot be opened");
    Close();
    return status;
  }
  sqlite3_busy_handler(connection_, WaitWhileBusy, &locks_fail_);
  // The file may come from anyone, so the code in its schema must not run. The file may also be
  // another program's database, so closing it must not change it (no checkpoint).
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  return Status::Ok();
}

void Connection::Close() {
  for (const auto& [sql, statement] : spare_) sqlite3_finalize(statement);
  spare_.clear();
  sqlite3_close_v2(std::exchange(connection_, nullptr));
}

bool Connection::ReadOnly() const { return sqlite3_db_readonly(connection_, "main") == 1; }

Result<Statement> Connection::Prepare(const std::string& sql) {
  sqlite3_stmt*& spare = spare_[sql];
  sqlite3_stmt* statement = std::exchange(spare, nullptr);
  if (statement != nullptr) return Statement(this, statement, &spare);
  if (sqlite3_prepare_v2(connection_, sql.c_str(), static_cast<int>(sql.size()), &statement,
                         nullptr) != SQLITE_OK) {
    return Fault("cannot be read");
  }
  return Statement(this, statement, &spare);
}

Status Connection::Execute(const std::string& sql) {
  if (sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return Fault("cannot be changed");
  }
  return Status::Ok();
}

Result<int64_t> Connection::Number(const std::string& sql) {
  UCUDNN_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  UCUDNN_ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.Int(0) : 0;
}

int64_t Connection::Changes() const { return sqlite3_changes64(connection_); }

Transaction::~Transaction() {
  // After some errors SQLite has rolled back by itself; then ROLLBACK fails, which is harmless.
  if (open_) [[maybe_unused]]
    const Status undone = connection_.Execute("ROLLBACK");
}

Status Transaction::Begin() {
  // A waiting process tries only once per kBusyPollMs. If this process wrote without a pause, it
  // would hold the lock at each of these tries. So it pauses for two intervals here.
  const auto since = std::chrono::steady_clock::now() - LastCommit();
  if (since < std::chrono::milliseconds(2 * kBusyPollMs)) sqlite3_sleep(2 * kBusyPollMs);
  UCUDNN_RETURN_IF_ERROR(connection_.Execute("BEGIN IMMEDIATE"));
  open_ = true;
  return Status::Ok();
}

Status Transaction::Commit() {
  UCUDNN_RETURN_IF_ERROR(connection_.Execute("COMMIT"));
  open_ = false;
  LastCommit() = std::chrono::steady_clock::now();
  return Status::Ok();
}

}  // namespace ucudnn::db
