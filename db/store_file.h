// One measurement file. The class chooses between the named file and its siblings, opens the file
// when it is first needed, and opens it again in the child of a fork. Not thread-safe: the caller
// holds StoreMutex().
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "db/connection.h"

namespace ucudnn::db {

// Returns the mutex that is held around every use of SQLite in this process, and across fork(). So
// a child inherits neither an unfinished transaction nor a locked mutex of SQLite.
Mutex& StoreMutex();

// Returns the length of `path` without its extension. Siblings get their suffix at this position.
size_t StemLength(const std::string& path);

class StoreFile {
 public:
  // If a `writable` file is damaged, another program's or of a newer schema, it stays unchanged,
  // and the first usable of its siblings NAME-2.EXT to NAME-9.EXT is used. A file that is not
  // `writable` has no siblings; if it is unusable, it gives no rows.
  StoreFile(std::string path, bool writable) : path_(std::move(path)), writable_(writable) {}
  ~StoreFile();
  StoreFile(const StoreFile&) = delete;
  StoreFile& operator=(const StoreFile&) = delete;

  // Returns the open file; null if the file does not exist, has no tables, or cannot be used by
  // this version.
  Result<Connection*> ForReading() UCUDNN_REQUIRES(StoreMutex());
  // Returns the open file with the current schema. Creates the file and its folders if they are
  // missing.
  Result<Connection*> ForWriting() UCUDNN_REQUIRES(StoreMutex());

  // The caller calls this after a failure. If the open file turned out to be damaged, closes it, so
  // that the next call opens a sibling, and returns true.
  bool SetAsideIfDamaged() UCUDNN_REQUIRES(StoreMutex());

  int64_t version() const { return version_; }  // schema version of the open file

  const std::string& path() const { return path_; }
  // Returns the path of the file in use, which may be a sibling of path().
  const std::string& place() const UCUDNN_REQUIRES(StoreMutex()) {
    return opened_.empty() ? path_ : opened_;
  }

  // Closes the file, which ends all its statements and snapshots. The next use opens it again.
  void Close() UCUDNN_REQUIRES(StoreMutex());

 private:
  Status Open(bool create) UCUDNN_REQUIRES(StoreMutex());
  Status OpenCandidate(const std::string& candidate, bool create, bool& usable)
      UCUDNN_REQUIRES(StoreMutex());
  // Warns once for each file of set_aside_. `instead` is the path of the file that is used, or
  // empty.
  void WarnSetAside(const std::string& instead);
  Status NoteVersion() UCUDNN_REQUIRES(StoreMutex());
  void ForgetInChild() UCUDNN_REQUIRES(StoreMutex());

  const std::string path_;
  const bool writable_;
  Connection connection_;
  std::string opened_;   // path of the file that connection_ has open
  std::string damaged_;  // paths that were found damaged while in use, one per line
  // Paths and reasons that WarnSetAside has yet to report.
  std::vector<std::pair<std::string, std::string>> set_aside_;
  pid_t pid_ = 0;        // the process that opened connection_
  int64_t version_ = 0;  // schema version of connection_; 0: no tables yet
};

}  // namespace ucudnn::db
