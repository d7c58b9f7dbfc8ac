// Wrappers of SQLite's connection and statement that return Status instead of SQLite's codes. Not
// thread-safe. Only the process that opened a connection may use it.
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

// A prepared statement. The connection must outlive the statement. The destructor leaves the
// prepared SQL with the connection, for the next Prepare of the same text. Parameters are numbered
// from 1, columns from 0.
class Statement {
 public:
  // The destructor stores `statement` in `*place`, or finalizes it if `*place` already holds
  // another statement.
  Statement(Connection* connection, sqlite3_stmt* statement, sqlite3_stmt** place);
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  void Bind(int parameter, int64_t value);
  void Bind(int parameter, double value);
  void Bind(int parameter, std::string_view value);

  // Returns true if there is a row, and false at the end of the rows. After false, the statement
  // may be bound and stepped again.
  Result<bool> Step();
  // Steps a statement that returns no rows.
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
  Status bound_;  // the first failure of a Bind; Step returns it
};

class Connection {
 public:
  enum class Access { kRead, kWrite, kCreate };

  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { Close(); }

  // Opens the file without reading or writing it. Later operations wait up to five seconds while
  // another process holds the file's lock. They do not wait if the file system has no locks.
  Status Open(const std::string& path, Access access);
  void Close();
  // Forgets the connection without closing it. The child of a fork calls this.
  void Leak() {
    connection_ = nullptr;
    spare_.clear();
  }
  const std::string& path() const { return path_; }
  bool open() const { return connection_ != nullptr; }
  // Returns true if the file system lets this process read the file but not write it.
  bool ReadOnly() const;

  // Prepares a statement, or reuses a statement that was prepared from the same SQL.
  Result<Statement> Prepare(const std::string& sql);
  Status Execute(const std::string& sql);
  Result<int64_t> Number(const std::string& sql);  // returns the first column of the first row
  int64_t Changes() const;  // number of rows that the last statement inserted or deleted

  // Returns SQLite's message if an operation since Open found that the file is damaged or not an
  // SQLite database; otherwise an empty text.
  const std::string& damage() const { return damage_; }

 private:
  friend class Statement;

  // Returns SQLite's last error as "PATH: doing: reason".
  Status Fault(const std::string& doing);

  std::string path_;
  sqlite3* connection_ = nullptr;
  // Prepared statements by SQL text. An entry is null while a Statement uses it.
  std::map<std::string, sqlite3_stmt*> spare_;
  std::string damage_;
  bool locks_fail_ = false;  // the last try to lock failed with ENOLCK
};

// A transaction that may write. The destructor rolls it back unless Commit succeeded. Begin waits
// if this process committed another transaction just before, so that waiting processes get the
// lock.
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
