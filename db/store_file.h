// One file of measurements: finds the file to use, opens it when it is first needed, and opens it
// anew in the child of a fork. Not thread-safe: the caller holds StoreMutex().
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

// Held around every use of SQLite in this process, and across fork, so that a child inherits
// neither a half-done transaction nor a mutex that is locked for ever.
Mutex& StoreMutex();

// The length of what is before the extension of `path`, where names of siblings get their suffix.
size_t StemLength(const std::string& path);

class StoreFile {
 public:
  // A `writable` file that is damaged, foreign or newer is left alone and the first usable of its
  // siblings NAME-2.EXT to NAME-9.EXT takes its place; one that is only read gives no rows.
  StoreFile(std::string path, bool writable) : path_(std::move(path)), writable_(writable) {}
  ~StoreFile();
  StoreFile(const StoreFile&) = delete;
  StoreFile& operator=(const StoreFile&) = delete;

  // The open file; null where there is none yet, or none this version can read.
  Result<Connection*> ForReading() UCUDNN_REQUIRES(StoreMutex());
  // The open file, created with its folders where it is missing, its tables up to date.
  Result<Connection*> ForWriting() UCUDNN_REQUIRES(StoreMutex());

  // To be called after a failure: true when the open file turned out to be damaged. It is set aside
  // then, and the next call opens another.
  bool SetAsideIfDamaged() UCUDNN_REQUIRES(StoreMutex());

  int64_t version() const { return version_; }  // of the open file's schema

  const std::string& path() const { return path_; }
  // The file that took its place, where one did.
  const std::string& place() const UCUDNN_REQUIRES(StoreMutex()) {
    return opened_.empty() ? path_ : opened_;
  }

  // Ends whatever statement or snapshot holds the file; the next use opens it anew.
  void Close() UCUDNN_REQUIRES(StoreMutex());

 private:
  Status Open(bool create) UCUDNN_REQUIRES(StoreMutex());
  Status OpenCandidate(const std::string& candidate, bool create, bool& usable)
      UCUDNN_REQUIRES(StoreMutex());
  // One warning for each file set aside, naming `instead`, the file that takes its place.
  void WarnSetAside(const std::string& instead);
  Status NoteVersion() UCUDNN_REQUIRES(StoreMutex());
  void ForgetInChild() UCUDNN_REQUIRES(StoreMutex());

  const std::string path_;
  const bool writable_;
  Connection connection_;
  std::string opened_;   // the candidate behind connection_
  std::string damaged_;  // candidates found damaged while in use, one a line
  std::vector<std::pair<std::string, std::string>> set_aside_;  // and why; not told yet
  pid_t pid_ = 0;        // the process that opened connection_
  int64_t version_ = 0;  // of its schema; 0: no tables yet
};

}  // namespace ucudnn::db
