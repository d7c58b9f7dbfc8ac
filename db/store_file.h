// One file of measurements. It finds the file to use, opens it when it is first needed, and opens
// it anew in the child of a fork. Not thread-safe: the caller holds StoreMutex().
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

// Returns the mutex that is held around every use of SQLite in this process, and across fork, so
// that a child inherits neither an unfinished transaction nor a mutex that stays locked for ever.
Mutex& StoreMutex();

// Returns the length of `path` without its extension, behind which names of siblings get their
// suffix.
size_t StemLength(const std::string& path);

class StoreFile {
 public:
  // A `writable` file that is damaged, foreign or newer is left alone, and the first usable of its
  // siblings NAME-2.EXT to NAME-9.EXT takes its place; a file that is only read then gives no rows.
  StoreFile(std::string path, bool writable) : path_(std::move(path)), writable_(writable) {}
  ~StoreFile();
  StoreFile(const StoreFile&) = delete;
  StoreFile& operator=(const StoreFile&) = delete;

  // Returns the open file; null if there is none yet, or none that this version can read.
  Result<Connection*> ForReading() UCUDNN_REQUIRES(StoreMutex());
  // Returns the open file, created with its folders if it is missing, with its tables up to date.
  Result<Connection*> ForWriting() UCUDNN_REQUIRES(StoreMutex());

  // To be called after a failure: returns true if the open file turned out to be damaged. It is
  // then set aside, and the next call opens another.
  bool SetAsideIfDamaged() UCUDNN_REQUIRES(StoreMutex());

  int64_t version() const { return version_; }  // of the open file's schema

  const std::string& path() const { return path_; }
  // Returns the file in use: the sibling that took its place, if one did.
  const std::string& place() const UCUDNN_REQUIRES(StoreMutex()) {
    return opened_.empty() ? path_ : opened_;
  }

  // Ends any statement or snapshot that holds the file; the next use opens it anew.
  void Close() UCUDNN_REQUIRES(StoreMutex());

 private:
  Status Open(bool create) UCUDNN_REQUIRES(StoreMutex());
  Status OpenCandidate(const std::string& candidate, bool create, bool& usable)
      UCUDNN_REQUIRES(StoreMutex());
  // Warns once of each file set aside, naming `instead`, the file that takes its place.
  void WarnSetAside(const std::string& instead);
  Status NoteVersion() UCUDNN_REQUIRES(StoreMutex());
  void ForgetInChild() UCUDNN_REQUIRES(StoreMutex());

  const std::string path_;
  const bool writable_;
  Connection connection_;
  std::string opened_;   // the candidate behind connection_
  std::string damaged_;  // candidates that were found damaged while in use, one a line
  std::vector<std::pair<std::string, std::string>> set_aside_;  // with the reason; not reported yet
  pid_t pid_ = 0;        // the process that opened connection_
  int64_t version_ = 0;  // of the schema of connection_; 0: no tables yet
};

}  // namespace ucudnn::db
