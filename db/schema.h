// The tables of a measurement store, and how a file is recognised as one. FORMAT.md describes both.
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
  std::string reason;   // why it is unusable: damaged, foreign or newer
  int64_t version = 0;  // version of the schema, if the file is a store
};

// Identifies the file behind `connection`; reads the file and writes nothing. An error is a passing
// fault (locked, no permission), not a verdict on the file. `thorough` reads every page.
Result<Identity> Identify(Connection& connection, bool thorough);

// Lets a connection read a file of `version`, which is not changed, as if it had the table
// `families` of the current version. Tables that came later are still missing.
Status ReadAsCurrent(Connection& connection, int64_t version);

// Creates the tables in an empty file, or brings those of an older version up to date, unless
// another process has just done so. It uses one transaction: a process that dies leaves the file as
// it was.
Status BringUpToDate(Connection& connection);

// Makes the table `notes`, which a file of the current version may lack.
Status MakeNotes(Connection& connection);
Result<bool> HasNotes(Connection& connection);

}  // namespace ucudnn::db
