// Creates, updates and recognises the tables of a measurement store. FORMAT.md describes them.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "db/connection.h"

namespace ucudnn::db {

inline constexpr int64_t kApplicationId = 0x75634477;  // "ucDw"
inline constexpr int64_t kSchemaVersion = 4;

struct Identity {
  enum class Kind { kOurs, kEmpty, kUnusable };
  Kind kind = Kind::kEmpty;
  std::string reason;   // for kUnusable: damaged, another program's, or of a newer schema
  int64_t version = 0;  // for kOurs: the schema version
};

// Finds out whether the file is a store. Reads the file and writes nothing; `thorough` reads every
// page. Returns an error if the contents cannot be read now, for example because the file is locked
// or may not be read.
Result<Identity> Identify(Connection& connection, bool thorough);

// Prepares a connection for reading a file of an older `version` without changing the file. A
// temporary view then replaces the table `families` of the current version. Tables that later
// versions added are still missing.
Status ReadAsCurrent(Connection& connection, int64_t version);

// Creates the tables in an empty file, or updates the tables of an older version; does nothing if
// another process has just done so. The change is one transaction, so a process that dies does not
// leave a half-updated file.
Status BringUpToDate(Connection& connection);

// Creates the table `notes`, which a file of the current version may lack.
Status MakeNotes(Connection& connection);
Result<bool> HasNotes(Connection& connection);

}  // namespace ucudnn::db
