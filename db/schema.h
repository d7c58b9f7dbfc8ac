// The tables of a measurement store and how a file is recognised as one. FORMAT.md describes both.
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
  int64_t version = 0;  // of the schema, where it is ours
};

// What the file behind `connection` is; reads the file and writes nothing. An error is a passing
// fault (locked, no permission), not a verdict on the file. `thorough` reads every page.
Result<Identity> Identify(Connection& connection, bool thorough);

// Lets a connection read a file of `version`, which stays as it is, as if it had the table
// `families` of the current version. Tables that came later are still missing.
Status ReadAsCurrent(Connection& connection, int64_t version);

// Creates the tables in an empty file, or brings those of an older version up to date, unless
// another process just did. In one transaction: a process that dies leaves the file as it was.
Status BringUpToDate(Connection& connection);

// The table `notes`, which a file of the current version may lack: makes it; whether it is there.
Status MakeNotes(Connection& connection);
Result<bool> HasNotes(Connection& connection);

}  // namespace ucudnn::db
