// SQLite with Status instead of codes: one connection and its statements. Not thread-safe; a
// connection belongs to the process that opened it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ucudnn::db {

class Connection;

// A prepared statement. The connection must outlive it, and keeps it for the next statement of the
// same SQL. Parameters are numbered from 1, columns from 0.
class Statement {
 public:
  // The statement returns to `place` when this object ends, unless `place` has another one by then.
  Statement(Connection* connection, sqlite3_stmt* statement, sqlite3_stmt** place);
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  void Bind(int parameter, int64_t value);
  void Bind(int parameter, double value);
  void Bind(int parameter, std::string_view value);

  // True: there is a row. False: the statement is done and may be bound anew.
  Result<bool> Step();
  // Steps a statement that gives no rows.
  Status Run();

  bool IsNumber(int column) const;
  int64_t Int(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;

 private:
  void NoteBound(int code);

  Connection* connection_;
  sqlite3_stmt* statement_;
  sqlite3_stmt** place_;
  Status bound_;  // the first failure to bind, reported by Step
};

class Connection {
 public:
  enum class Access { kRead, kWrite, kCreate };

  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { Close(); }

  // Opens the file. Later operations wait up to five seconds if another process holds the file, and
  // not at all if files cannot be locked. Nothing is read or written yet.
  Status Open(const std::string& path, Access access);
  void Close();
  // Forgets the connection without closing it. The child of a fork must do this.
  void Leak() {
    connection_ = nullptr;
    spare_.clear();
  }
  const std::string& path() const { return path_; }
  bool open() const { return connection_ != nullptr; }
  // Returns whether the file system lets this process read the file but not write it.
  bool ReadOnly() const;

  // Prepares a statement, or reuses one that was prepared from the same SQL.
  Result<Statement> Prepare(const std::string& sql);
  Status Execute(const std::string& sql);
  Result<int64_t> Number(const std::string& sql);  // the first column of the first row
  int64_t Changes() const;                         // rows that the last statement inserted

  // Returns why the file is no intact SQLite database, as the first failure since Open that showed
  // it said; empty if none did.
  const std::string& damage() const { return damage_; }

 private:
  friend class Statement;

  // SQLite's last error as "PATH: doing: reason".
  Status Fault(const std::string& doing);

  std::string path_;
  sqlite3* connection_ = nullptr;
  std::map<std::string, sqlite3_stmt*> spare_;  // by SQL; null: in use
  std::string damage_;
  bool locks_fail_ = false;  // no process held the last lock that could not be taken
};

// A transaction that may write. Undone unless committed. If it follows another one of this process
// at once, it lets other processes go first.
class Transaction {
 public:
  explicit Transaction(Connection& connection) : connection_(connection) {}
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  Status Begin();
  Status Commit();

 private:
  Connection& connection_;
  bool open_ = false;
};

}  // namespace ucudnn::db
